//! Frames of SPDY.

use bytes::BytesMut;
use pintle_spdy::{Decoder, Encoder, Frame};

/// All frames of the input before the first malformed or incomplete frame.
fn frames(mut bytes: BytesMut) -> Vec<Frame> {
    let mut decoder = Decoder::default();
    std::iter::from_fn(|| decoder.decode(&mut bytes).ok().flatten()).collect()
}

/// The frame as it is encoded: header names are in lower case.
fn normal(mut frame: Frame) -> Frame {
    if let Frame::SynStream { headers, .. } | Frame::SynReply { headers, .. } | Frame::Headers { headers, .. } =
        &mut frame
    {
        headers.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
    }
    frame
}

pub(super) fn decoded(input: &[u8]) {
    let found: Vec<Frame> = frames(input.into()).into_iter().map(normal).collect();
    let (mut encoder, mut written) = (Encoder::default(), BytesMut::new());
    for frame in &found {
        // Headers that barely fit when decompressed do not fit uncompressed.
        if encoder.encode(frame, &mut written).is_err() {
            return;
        }
    }
    assert_eq!(frames(written), found);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let headers = vec![("streamtype".to_owned(), "error".to_owned())];
    let frames = [
        Frame::SynStream { stream: 1, is_last: false, headers: headers.clone() },
        Frame::SynReply { stream: 1, is_last: false, headers: Vec::new() },
        Frame::Headers { stream: 1, is_last: true, headers },
        Frame::Data { stream: 1, is_last: true, bytes: "hello".into() },
        Frame::RstStream { stream: 1, status: 5 },
        Frame::Ping(2),
        Frame::GoAway { last_stream: 1, status: 0 },
        Frame::WindowUpdate { stream: 1, bytes: 9 },
        Frame::Settings,
    ];
    let (mut encoder, mut all) = (Encoder::default(), BytesMut::new());
    for frame in &frames {
        encoder.encode(frame, &mut all).expect("headers that fit");
    }
    // A frame that is compressed with the dictionary, as Go writes it.
    let compressed = [
        128, 3, 0, 1, 0, 0, 0, 41, 0, 0, 0, 1, 0, 0, 0, 0, 96, 0, 120, 249, 227, 198, 167, 194, 98, 96, 96, 96, 4, 167,
        179, 146, 162, 212, 196, 92, 104, 81, 194, 154, 10, 10, 104, 0, 0, 0, 0, 255, 255,
    ];
    vec![all.to_vec(), compressed.to_vec()]
}
