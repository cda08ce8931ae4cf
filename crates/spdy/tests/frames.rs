//! Reads frames that Go's `spdystream` has written, and writes frames for it.

use bytes::{Bytes, BytesMut};
use pintle_spdy::{Decoder, Encoder, Frame, SpdyError};

fn from_hex(text: &str) -> BytesMut {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16).expect("hexadecimal digits"))
        .collect()
}

fn headers(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The frames of one connection, in this order: header blocks refer to earlier ones.
const RECORDED: &str = "
    80030001000000290000000100000000600078f9e3c6a7c26260606004a7b392a2d4c45c6851c29a0a0a6800000000ffff
    800300020000000e000000016260606000000000ffff
    80030001010000280000000300000000000002651e0c69b6e292947c7039cd52905f04a2592d0c182c0c01000000ffff
    800300080000000e00000003c26a165431000000ffff
    80030003000000080000000300000005
    800300060000000400000002
    80030007000000080000000300000000
    80030009000000080000000300010000
    000000030100000568656c6c6f
    800300040000000c000000010000000400000064";

fn recorded() -> Vec<Frame> {
    vec![
        Frame::SynStream { stream: 1, is_last: false, headers: headers(&[("streamtype", "error")]) },
        Frame::SynReply { stream: 1, is_last: false, headers: Vec::new() },
        Frame::SynStream {
            stream: 3,
            is_last: true,
            headers: headers(&[("port", "80\x0081"), ("streamtype", "stdout")]),
        },
        Frame::Headers { stream: 3, is_last: false, headers: headers(&[("streamtype", "stdout")]) },
        Frame::RstStream { stream: 3, status: 5 },
        Frame::Ping(2),
        Frame::GoAway { last_stream: 3, status: 0 },
        Frame::WindowUpdate { stream: 3, bytes: 65536 },
        Frame::Data { stream: 3, is_last: true, bytes: Bytes::from_static(b"hello") },
        Frame::Settings,
    ]
}

/// Sorts the headers, which Go writes in any order.
fn sorted(mut frame: Frame) -> Frame {
    if let Frame::SynStream { headers, .. } = &mut frame {
        headers.sort();
    }
    frame
}

#[test]
fn frames_of_go_are_read() {
    let (mut decoder, mut bytes) = (Decoder::default(), from_hex(RECORDED));
    for expect in recorded() {
        assert_eq!(decoder.decode(&mut bytes).map(|frame| frame.map(sorted)), Ok(Some(expect)));
    }
    assert_eq!(decoder.decode(&mut bytes), Ok(None));
}

#[test]
fn frames_are_read_as_their_bytes_arrive() {
    let mut decoder = Decoder::default();
    let mut buffer = BytesMut::new();
    let mut found: Vec<Frame> = Vec::new();
    for byte in from_hex(RECORDED) {
        buffer.extend_from_slice(&[byte]);
        while let Some(frame) = decoder.decode(&mut buffer).expect("a frame") {
            found.push(sorted(frame));
        }
    }
    // The bytes of data come one by one.
    let data: Vec<u8> = found
        .iter()
        .filter_map(|frame| if let Frame::Data { bytes, .. } = frame { Some(bytes.to_vec()) } else { None })
        .flatten()
        .collect();
    assert_eq!(data, b"hello");
    let last = found.iter().filter(|frame| matches!(frame, Frame::Data { is_last: true, .. })).count();
    assert_eq!(last, 1);
    let others = |frames: Vec<Frame>| -> Vec<Frame> {
        frames.into_iter().filter(|frame| !matches!(frame, Frame::Data { .. })).collect()
    };
    assert_eq!(others(found), others(recorded()));
}

#[test]
fn what_is_written_can_be_read() {
    let (mut encoder, mut decoder, mut bytes) = (Encoder::default(), Decoder::default(), BytesMut::new());
    for frame in recorded() {
        encoder.encode(&frame, &mut bytes).expect("a frame");
    }
    for expect in recorded() {
        assert_eq!(decoder.decode(&mut bytes), Ok(Some(expect)));
    }
}

#[test]
fn long_data_becomes_several_frames() {
    let (mut encoder, mut decoder, mut bytes) = (Encoder::default(), Decoder::default(), BytesMut::new());
    let data = Bytes::from(vec![7; (1 << 24) + 5]);
    encoder.encode(&Frame::Data { stream: 1, is_last: true, bytes: data.clone() }, &mut bytes).expect("frames");
    let mut found = Vec::new();
    while let Some(frame) = decoder.decode(&mut bytes).expect("a frame") {
        let Frame::Data { stream: 1, is_last, bytes } = frame else { panic!("{frame:?}") };
        found.extend_from_slice(&bytes);
        assert_eq!(is_last, found.len() == data.len());
    }
    assert!(found == data);
}

#[test]
fn what_is_not_a_frame_is_refused() {
    let check = |text: &str, expect: SpdyError| {
        assert_eq!(Decoder::default().decode(&mut from_hex(text)), Err(expect), "{text}");
    };
    check("8002 0001 00000000", SpdyError::Version(2));
    check("8003 0005 00000000", SpdyError::UnknownType(5));
    check("8003 0001 00ffffff", SpdyError::TooLarge(0xff_ffff));
    check("8003 0006 00000003 000000", SpdyError::WrongLength);
    check("8003 0006 00000005 0000000000", SpdyError::WrongLength);
    check("8003 0001 00000004 00000001", SpdyError::WrongLength);
    check("8003 0003 00000008 0000000000000000", SpdyError::NoStream);
    check("00000000 00000001 61", SpdyError::NoStream);
    check("8003 0002 00000006 000000010000", SpdyError::Compression);
}

#[test]
fn headers_that_are_too_large_are_not_sent() {
    let frame = Frame::SynStream { stream: 1, is_last: false, headers: vec![("a".to_owned(), "x".repeat(1 << 17))] };
    let mut bytes = BytesMut::new();
    assert_eq!(Encoder::default().encode(&frame, &mut bytes), Err(SpdyError::HeadersTooLarge));
    assert!(bytes.is_empty());
}

#[test]
fn frames_are_written_so_that_go_reads_them() {
    let (mut encoder, mut bytes) = (Encoder::default(), BytesMut::new());
    for (stream, kind) in [(1, "error"), (3, "stdout")] {
        let headers = headers(&[("streamtype", kind)]);
        encoder.encode(&Frame::SynStream { stream, is_last: false, headers }, &mut bytes).expect("a frame");
    }
    encoder.encode(&Frame::Ping(1), &mut bytes).expect("a frame");
    // Go's `spdystream` was given these bytes, and read the frames above.
    let expect = from_hex(
        "800300010000003100000001000000000000
         7801 001b00e4ff 00000001 0000000a 73747265616d74797065 00000005 6572726f72 000000ffff
         800300010000003000000003000000000000
         001c00e3ff 00000001 0000000a 73747265616d74797065 00000006 7374646f7574 000000ffff
         800300060000000400000001",
    );
    assert_eq!(bytes, expect);
}
