//! Resets that are believed.
//!
//! A Pod outlives this process, and so do its connections. The stack that meets them after a restart knows none of them and
//! answers with a reset, but with a sequence number that it makes up. A kernel ignores such a reset, and the Pod's program
//! waits for minutes. The right number is the one that the Pod acknowledged in the packet that is being answered.

use std::collections::VecDeque;

/// A reset follows what it answers within this many packets.
const KEPT: usize = 256;

/// Addresses and ports of a TCP packet from its sender to its receiver.
type Flow = ([u8; 4], [u8; 4], [u8; 2], [u8; 2]);

/// What Pods acknowledged last.
#[derive(Default)]
pub(super) struct Recent(VecDeque<(Flow, [u8; 4])>);

impl Recent {
    /// Looks at a packet from a Pod.
    pub(super) fn remember(&mut self, packet: &[u8]) {
        let Some(tcp) = Tcp::of(packet) else { return };
        if tcp.flags & (SYN | RST) != 0 || tcp.flags & ACK == 0 {
            return;
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((tcp.flow, tcp.acknowledged));
    }

    /// The packet to a Pod with the right number, if it is a reset with a wrong one.
    pub(super) fn mend(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let tcp = Tcp::of(packet)?;
        if tcp.flags & RST == 0 {
            return None;
        }
        let (from, to, from_port, to_port) = tcp.flow;
        let answered = (to, from, to_port, from_port);
        let (_, number) = self.0.iter().rev().find(|(flow, _)| *flow == answered)?;
        let mut mended = packet.to_vec();
        let sequence = tcp.start + 4;
        let mut sum = u32::from(!word(&mended, tcp.start + 16));
        for half in [0, 2] {
            // RFC 1624: take the old value out of the checksum and put the new one in.
            sum += u32::from(!word(&mended, sequence + half));
            mended[sequence + half..][..2].copy_from_slice(&number[half..][..2]);
            sum += u32::from(word(&mended, sequence + half));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let checksum = !u16::try_from(sum).expect("it was folded");
        mended[tcp.start + 16..][..2].copy_from_slice(&checksum.to_be_bytes());
        Some(mended)
    }
}

fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// What matters of an IPv4 packet with TCP in it.
struct Tcp {
    flow: Flow,
    /// Where the TCP header starts.
    start: usize,
    acknowledged: [u8; 4],
    flags: u8,
}

impl Tcp {
    fn of(packet: &[u8]) -> Option<Self> {
        let (version, length) = (packet.first()? >> 4, usize::from(packet.first()? & 0x0f) * 4);
        if version != 4 || *packet.get(9)? != 6 {
            return None;
        }
        let header = packet.get(length..length + 20)?;
        let bytes = |from: &[u8]| <[u8; 4]>::try_from(from).ok();
        let flow = (bytes(&packet[12..16])?, bytes(&packet[16..20])?, [header[0], header[1]], [header[2], header[3]]);
        Some(Self { flow, start: length, acknowledged: bytes(&header[8..12])?, flags: header[13] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum over the pseudo header and the segment; right when it comes to zero.
    fn checksum(packet: &[u8]) -> u16 {
        let length = u16::try_from(packet.len() - 20).expect("a small packet");
        let mut words: Vec<u16> = (12..20).step_by(2).map(|at| word(packet, at)).collect();
        words.extend([6, length]);
        words.extend((20..packet.len()).step_by(2).map(|at| word(packet, at)));
        let mut sum: u32 = words.into_iter().map(u32::from).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).expect("it was folded")
    }

    fn packet(flow: Flow, sequence: u32, acknowledged: u32, flags: u8) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[9] = 6;
        packet[12..16].copy_from_slice(&flow.0);
        packet[16..20].copy_from_slice(&flow.1);
        packet[20..22].copy_from_slice(&flow.2);
        packet[22..24].copy_from_slice(&flow.3);
        packet[24..28].copy_from_slice(&sequence.to_be_bytes());
        packet[28..32].copy_from_slice(&acknowledged.to_be_bytes());
        packet[32] = 0x50;
        packet[33] = flags;
        let sum = checksum(&packet);
        packet[36..38].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    #[test]
    fn a_reset_gets_the_number_that_the_pod_expects() {
        let (pod, model) = ([10, 88, 0, 2], [192, 0, 2, 1]);
        let there = (pod, model, [0x90, 1], [0x1f, 0x90]);
        let back = (model, pod, [0x1f, 0x90], [0x90, 1]);
        let mut recent = Recent::default();
        recent.remember(&packet(there, 7, 0xdead_beef, ACK));
        let mended = recent.mend(&packet(back, 42, 8, RST | ACK)).expect("it is mended");
        assert_eq!(mended, packet(back, 0xdead_beef, 8, RST | ACK));
        assert_eq!(checksum(&mended), 0);
        assert_eq!(recent.mend(&packet(back, 42, 8, ACK)), None, "only resets");
        assert_eq!(recent.mend(&packet((model, pod, [1, 1], [2, 2]), 42, 8, RST)), None, "only what is known");
    }
}
