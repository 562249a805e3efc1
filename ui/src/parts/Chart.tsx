// Stacked bars over time, small enough to need no library. What it says is also there as text for those who do not
// see it.

export interface Series {
  name: string;
  colour: string;
}

export interface Bar {
  label: string;
  values: number[];
}

const HEIGHT = 88;

export function Chart({ title, total, series, bars, write = String }: { title: string; total: string; series: Series[]; bars: Bar[]; write?: (value: number) => string }) {
  const sum = (bar: Bar) => bar.values.reduce((all, value) => all + value, 0);
  const most = Math.max(...bars.map(sum), 0);
  const scale = most > 0 ? (HEIGHT - 6) / most : 0;
  const width = 100 / bars.length;
  return (
    <figure className="chart">
      <figcaption>
        <b>{title}</b>
        <span className="mono">{total}</span>
      </figcaption>
      <svg role="img" aria-label={`${title}: ${total}; at most ${write(most)} at a time`} viewBox={`0 0 100 ${HEIGHT}`} preserveAspectRatio="none">
        <line x1="0" x2="100" y1={HEIGHT} y2={HEIGHT} stroke="var(--line)" vectorEffect="non-scaling-stroke" />
        {bars.map((bar, index) => {
          let top = HEIGHT;
          return (
            <g key={index}>
              <title>{`${bar.label}: ${bar.values.map((value, which) => (value ? `${write(value)} ${series[which]?.name ?? ""}` : "")).filter(Boolean).join(", ") || "none"}`}</title>
              <rect x={index * width} y={0} width={width} height={HEIGHT} fill="transparent" />
              {bar.values.map((value, which) => {
                const height = value * scale;
                top -= height;
                return height > 0 ? <rect key={which} x={index * width + width * 0.12} y={top} width={width * 0.76} height={height} fill={series[which]?.colour} /> : null;
              })}
            </g>
          );
        })}
      </svg>
      <div className="axis">
        <span>{bars[0]?.label}</span>
        <span>{series.length > 1 ? series.map((one) => <span key={one.name} className="keyed" style={{ "--colour": one.colour, marginRight: 8 } as React.CSSProperties}>{one.name}</span>) : null}</span>
        <span>now</span>
      </div>
    </figure>
  );
}
