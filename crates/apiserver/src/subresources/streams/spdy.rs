//! SPDY/3.1 framing, as far as forwarding ports needs it: bytes in, frames out, and back. No I/O.
//!
//! Header blocks are compressed with one zlib stream for each direction, both begun with a dictionary of the protocol.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// A header block is small: stream type, port, request. More than this is an attack.
const LONGEST_BLOCK: usize = 16 * 1024;
/// A control frame that is longer than this is refused before it is waited for.
const LONGEST_CONTROL: usize = 64 * 1024;
const HEADER: usize = 8;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const VERSION: u16 = 0x8003;
const FIN: u8 = 1;
/// Reset because the stream is not wanted.
pub const REFUSED_STREAM: u32 = 3;

/// What a peer says.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A stream is opened.
    Open {
        /// Its number.
        stream: u32,
        /// Names are lower case.
        headers: Vec<(String, String)>,
        /// Nothing else comes on it.
        last: bool,
    },
    /// Bytes of a stream.
    Data {
        /// Which.
        stream: u32,
        /// The bytes.
        bytes: Bytes,
        /// Nothing else comes on it.
        last: bool,
    },
    /// A stream is given up.
    Reset(u32),
    /// To be sent back.
    Ping(u32),
    /// The peer is about to close.
    GoAway,
    /// A frame that means nothing to us.
    Other,
}

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not this protocol.
    #[error("a frame of another version than SPDY/3")]
    Version,
    /// Larger than anything a client sends.
    #[error("a frame of {0} bytes")]
    Size(usize),
    /// A header block that cannot be read.
    #[error("a header block that is broken")]
    Headers,
}

/// Takes bytes as they come and gives frames.
pub struct Decoder {
    buffer: BytesMut,
    inflate: Decompress,
}

impl Decoder {
    pub fn new() -> Self {
        Self { buffer: BytesMut::new(), inflate: Decompress::new(true) }
    }

    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if it is there.
    pub fn next(&mut self) -> Result<Option<Frame>, Error> {
        let Some(header) = self.buffer.first_chunk::<HEADER>() else { return Ok(None) };
        let first = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let last = header[4] & FIN != 0;
        let is_control = first & 0x8000_0000 != 0;
        if is_control && length > LONGEST_CONTROL {
            return Err(Error::Size(length));
        }
        if self.buffer.len() < HEADER + length {
            self.buffer.reserve(HEADER + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        let payload = self.buffer.split_to(length).freeze();
        if !is_control {
            return Ok(Some(Frame::Data { stream: first, bytes: payload, last }));
        }
        let [version, kind] = [(first >> 16) as u16, (first & 0xffff) as u16];
        if version != VERSION {
            return Err(Error::Version);
        }
        self.control(kind, payload, last).map(Some)
    }

    fn control(&mut self, kind: u16, mut payload: Bytes, last: bool) -> Result<Frame, Error> {
        let mut number = |skipped: usize| {
            let number = payload.try_get_u32().map_err(|_| Error::Headers)?;
            if payload.len() < skipped {
                return Err(Error::Headers);
            }
            payload.advance(skipped);
            Ok(number & 0x7fff_ffff)
        };
        Ok(match kind {
            // After the stream's number: the one it belongs to, priority and slot.
            SYN_STREAM => {
                let stream = number(6)?;
                Frame::Open { stream, headers: self.headers(&payload)?, last }
            }
            // Nobody answers us, but the block must be read: the next one is compressed with regard to it.
            SYN_REPLY => {
                number(0)?;
                self.headers(&payload)?;
                Frame::Other
            }
            RST_STREAM => Frame::Reset(number(0)?),
            PING => Frame::Ping(payload.try_get_u32().map_err(|_| Error::Headers)?),
            GO_AWAY => Frame::GoAway,
            _ => Frame::Other,
        })
    }

    fn headers(&mut self, block: &[u8]) -> Result<Vec<(String, String)>, Error> {
        let mut text = Bytes::from(self.decompress(block)?);
        let count = text.try_get_u32().map_err(|_| Error::Headers)?;
        let mut word = || {
            let length = text.try_get_u32().map_err(|_| Error::Headers)? as usize;
            if length > text.len() {
                return Err(Error::Headers);
            }
            String::from_utf8(text.split_to(length).to_vec()).map_err(|_| Error::Headers)
        };
        (0..count).map(|_| Ok((word()?, word()?))).collect()
    }

    fn decompress(&mut self, block: &[u8]) -> Result<Vec<u8>, Error> {
        let mut text = Vec::with_capacity(LONGEST_BLOCK);
        let start = self.inflate.total_in();
        loop {
            let done = usize::try_from(self.inflate.total_in() - start).map_err(|_| Error::Headers)?;
            let before = (self.inflate.total_in(), text.len());
            match self.inflate.decompress_vec(&block[done..], &mut text, FlushDecompress::Sync) {
                Ok(Status::Ok | Status::BufError) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    self.inflate.set_dictionary(&dictionary()).map_err(|_| Error::Headers)?;
                    continue;
                }
                // Nobody ends the one stream of headers before the connection.
                Ok(Status::StreamEnd) | Err(_) => return Err(Error::Headers),
            }
            if text.len() == LONGEST_BLOCK {
                return Err(Error::Headers);
            }
            if before == (self.inflate.total_in(), text.len()) {
                let all = usize::try_from(self.inflate.total_in() - start).is_ok_and(|read| read == block.len());
                return if all { Ok(text) } else { Err(Error::Headers) };
            }
        }
    }
}

/// Writes the frames that need compression; the others are plain functions.
pub struct Encoder {
    deflate: Compress,
}

impl Encoder {
    pub fn new() -> Self {
        let mut deflate = Compress::new(Compression::fast(), true);
        deflate.set_dictionary(&dictionary()).expect("nothing was compressed yet");
        Self { deflate }
    }

    /// Accepts a stream.
    pub fn reply(&mut self, stream: u32) -> Bytes {
        let mut block = Vec::with_capacity(64);
        // No headers.
        let written = self.deflate.compress_vec(&[0; 4], &mut block, FlushCompress::Sync);
        written.expect("four bytes and a flush fit into 64");
        let mut payload = BytesMut::with_capacity(4 + block.len());
        payload.put_u32(stream);
        payload.put_slice(&block);
        control(SYN_REPLY, &payload)
    }
}

/// Bytes of a stream.
pub fn data(stream: u32, bytes: &[u8], last: bool) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEADER + bytes.len());
    frame.put_u32(stream);
    put_length(&mut frame, u8::from(last) * FIN, bytes.len());
    frame.put_slice(bytes);
    frame.freeze()
}

/// Gives a stream up.
pub fn reset(stream: u32, why: u32) -> Bytes {
    let mut payload = BytesMut::with_capacity(8);
    payload.put_u32(stream);
    payload.put_u32(why);
    control(RST_STREAM, &payload)
}

/// Answers a ping.
pub fn pong(number: u32) -> Bytes {
    control(PING, &number.to_be_bytes())
}

fn control(kind: u16, payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEADER + payload.len());
    frame.put_u16(VERSION);
    frame.put_u16(kind);
    put_length(&mut frame, 0, payload.len());
    frame.put_slice(payload);
    frame.freeze()
}

fn put_length(frame: &mut BytesMut, flags: u8, length: usize) {
    let length = u32::try_from(length).ok().filter(|length| *length < 1 << 24).expect("frames are written in pieces");
    frame.put_u32(u32::from(flags) << 24 | length);
}

/// What both sides' compressors have seen before the first header: words with their lengths, then plain text.
fn dictionary() -> Vec<u8> {
    const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
        accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
        content-length content-location content-md5 content-range content-type date etag expect expires from host \
        if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards \
        pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding \
        upgrade user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public \
        set-cookie keep-alive origin";
    const TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
        203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized\
        403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
        Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
        chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,\
        text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";
    let mut dictionary = Vec::with_capacity(1423);
    for word in WORDS.split_whitespace() {
        dictionary.put_u32(u32::try_from(word.len()).expect("a word is short"));
        dictionary.put_slice(word.replace('_', " ").as_bytes());
    }
    dictionary.put_slice(TEXT.as_bytes());
    dictionary
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// What a client writes.
    fn open(deflate: &mut Compress, stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = Vec::new();
        plain.put_u32(u32::try_from(headers.len()).unwrap());
        for word in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.put_u32(u32::try_from(word.len()).unwrap());
            plain.put_slice(word.as_bytes());
        }
        let mut block = Vec::with_capacity(4096);
        deflate.compress_vec(&plain, &mut block, FlushCompress::Sync).unwrap();
        let mut payload = Vec::new();
        payload.put_u32(stream);
        payload.put_slice(&[0; 6]);
        payload.put_slice(&block);
        control(SYN_STREAM, &payload).to_vec()
    }

    #[test]
    fn the_dictionary_is_the_protocols() {
        let dictionary = dictionary();
        assert_eq!(dictionary.len(), 1423);
        // As zlib names a dictionary: Adler-32, which is in the second to fifth byte of every stream that uses it.
        let mut block = Vec::with_capacity(64);
        let mut encoder = Encoder::new();
        encoder.deflate.compress_vec(&[0; 4], &mut block, FlushCompress::Sync).unwrap();
        assert_eq!(block[2..6], [0xe3, 0xc6, 0xa7, 0xc2]);
    }

    #[test]
    fn streams_are_read_whatever_pieces_they_come_in() {
        let mut deflate = Compress::new(Compression::best(), true);
        deflate.set_dictionary(&dictionary()).unwrap();
        let headers = [("streamtype", "data"), ("port", "8080"), ("requestid", "0")];
        let mut bytes = open(&mut deflate, 1, &headers);
        bytes.extend(open(&mut deflate, 3, &headers[1..]));
        bytes.extend_from_slice(&data(3, b"hello", true));
        bytes.extend_from_slice(&pong(7));
        bytes.extend_from_slice(&reset(1, 5));
        for size in [1, 3, 1000] {
            let mut decoder = Decoder::new();
            let mut frames = Vec::new();
            for piece in bytes.chunks(size) {
                decoder.feed(piece);
                while let Some(frame) = decoder.next().unwrap() {
                    frames.push(frame);
                }
            }
            let owned = |list: &[(&str, &str)]| -> Vec<(String, String)> {
                list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
            };
            let wanted = [
                Frame::Open { stream: 1, headers: owned(&headers), last: false },
                Frame::Open { stream: 3, headers: owned(&headers[1..]), last: false },
                Frame::Data { stream: 3, bytes: Bytes::from_static(b"hello"), last: true },
                Frame::Ping(7),
                Frame::Reset(1),
            ];
            assert_eq!(frames, wanted);
        }
    }

    #[test]
    fn replies_can_be_read_one_after_the_other() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        for stream in [1, 3, 5] {
            decoder.feed(&encoder.reply(stream));
            assert_eq!(decoder.next().unwrap(), Some(Frame::Other));
        }
    }

    #[test]
    fn what_is_broken_ends_the_connection() {
        let mut wrong_version = Decoder::new();
        wrong_version.feed(&[0x80, 2, 0, 1, 0, 0, 0, 0]);
        assert!(matches!(wrong_version.next(), Err(Error::Version)));
        let mut large = Decoder::new();
        large.feed(&[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff]);
        assert!(matches!(large.next(), Err(Error::Size(_))));
        let mut bomb = Decoder::new();
        let mut deflate = Compress::new(Compression::best(), true);
        deflate.set_dictionary(&dictionary()).unwrap();
        bomb.feed(&open(&mut deflate, 1, &[("streamtype", &"x".repeat(100_000))]));
        assert!(matches!(bomb.next(), Err(Error::Headers)));
        let mut nonsense = Decoder::new();
        nonsense.feed(&control(SYN_STREAM, b"0123456789 no zlib here"));
        assert!(matches!(nonsense.next(), Err(Error::Headers)));
    }
}
