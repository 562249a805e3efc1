// Stacked bars, small enough to need no library. A table says the same to those who do not see it.

export interface Bar {
  label: string;
  parts: { name: "done" | "failed" | "running"; value: number }[];
}

const HEIGHT = 96;

export function Chart({ bars }: { bars: Bar[] }) {
  const most = Math.max(1, ...bars.map((bar) => bar.parts.reduce((sum, part) => sum + part.value, 0)));
  const width = 100 / bars.length;
  const total = bars.reduce((sum, bar) => sum + bar.parts.reduce((inner, part) => inner + part.value, 0), 0);
  return (
    <figure style={{ margin: 0 }}>
      <svg role="img" aria-label={`${total} Tasks, at most ${most} in an hour`} viewBox={`0 0 100 ${HEIGHT}`} preserveAspectRatio="none" style={{ width: "100%", height: HEIGHT, borderBottom: "1px solid var(--line)" }}>
        {bars.map((bar, index) => {
          let top = HEIGHT;
          return (
            <g key={bar.label}>
              <title>{`${bar.label}: ${bar.parts.filter((part) => part.value).map((part) => `${part.value} ${part.name}`).join(", ") || "none"}`}</title>
              <rect x={index * width} y={0} width={width} height={HEIGHT} fill="transparent" />
              {bar.parts.map((part) => {
                const height = (part.value / most) * (HEIGHT - 8);
                top -= height;
                return <rect key={part.name} x={index * width + width * 0.15} y={top} width={width * 0.7} height={height} fill={`var(--${part.name})`} />;
              })}
            </g>
          );
        })}
      </svg>
      <figcaption className="quiet" style={{ display: "flex", justifyContent: "space-between", fontSize: 12 }}>
        <span>{bars[0]?.label}</span>
        <span><span className="done">■</span> completed <span className="failed">■</span> failed <span className="running">■</span> open</span>
        <span>now</span>
      </figcaption>
    </figure>
  );
}
