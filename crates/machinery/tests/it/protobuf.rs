//! Objects as Go clients send them.

use machinery::protobuf::{Error, decode};
use serde_json::json;

/// A field with bytes in it.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
    bytes.extend_from_slice(content);
    bytes
}

/// A field with a small number in it.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, object), field(3, b""), field(4, b"")].concat()
}

#[test]
fn a_config_map_is_read() {
    let entry = [field(1, b"colour"), field(2, b"blue")].concat();
    // Go writes what is not set as empty: names, a time of zero, numbers.
    let meta = [field(1, b"sky"), field(2, b""), field(3, b"home"), number(7, 0), field(8, b"")].concat();
    let raw = [field(1, b"raw"), field(2, &[0, 255])].concat();
    let object = [field(1, &meta), field(2, &entry), field(3, &raw), number(4, 0)].concat();
    assert_eq!(
        decode(&body("v1", "ConfigMap", &object)).unwrap(),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "sky", "namespace": "home" },
            "data": { "colour": "blue" },
            "binaryData": { "raw": "AP8=" },
            "immutable": false,
        })
    );
}

#[test]
fn numbers_quantities_times_and_inlined_parts_are_read() {
    let port = [field(1, b"web"), number(3, 80), field(4, &[number(1, 1), number(2, 0), field(3, b"http")].concat())];
    let object = field(2, &field(1, &port.concat()));
    assert_eq!(
        decode(&body("v1", "Service", &object)).unwrap()["spec"],
        json!({ "ports": [{ "name": "web", "port": 80, "targetPort": "http" }] })
    );
    let limit = [field(1, b"memory"), field(2, &field(1, b"1Gi"))].concat();
    let container = [field(1, b"c"), field(8, &field(1, &limit))].concat();
    let volume = [field(1, b"v"), field(2, &field(2, &field(1, b"Memory")))].concat();
    let spec = [field(1, &volume), field(2, &container), number(4, 0)].concat();
    let pod = decode(&body("v1", "Pod", &field(2, &spec))).unwrap();
    assert_eq!(
        pod["spec"],
        json!({
            "volumes": [{ "name": "v", "emptyDir": { "medium": "Memory" } }],
            "containers": [{ "name": "c", "resources": { "limits": { "memory": "1Gi" } } }],
            "terminationGracePeriodSeconds": 0,
        })
    );
    // 2026-11-15T12:00:00Z is 1794744000 seconds.
    let time = [&[1 << 3][..], &[0xc0, 0xbd, 0xe6, 0xd7, 0x06]].concat();
    let event = field(1, &field(9, &time));
    let read = decode(&body("v1", "Event", &event)).unwrap();
    assert_eq!(read["metadata"]["deletionTimestamp"], "2026-11-15T12:00:00Z");
}

#[test]
fn what_is_not_ours_to_read_is_refused() {
    assert_eq!(decode(b"{}"), Err(Error::Foreign));
    assert_eq!(decode(b""), Err(Error::Foreign));
    assert_eq!(decode(&body("example.com/v1", "Planet", b"")), Err(Error::Unknown("example.com/v1 Planet".into())));
}

#[test]
fn damaged_bytes_are_errors_not_panics() {
    let entry = [field(1, b"colour"), field(2, b"blue")].concat();
    let whole = body("v1", "ConfigMap", &field(2, &entry));
    let damaged = (4..whole.len()).filter(|&length| decode(&whole[..length]).is_err()).count();
    assert!(damaged > whole.len() / 2, "{damaged} of {} cuts were noticed", whole.len());
    for at in 4..whole.len() {
        let mut bent = whole.clone();
        bent[at] ^= 0xff;
        let _ = decode(&bent);
    }
}
