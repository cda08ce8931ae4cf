//! Measures encryption and decryption by provider: `cargo run --release -p pintle-encryption --example costs`.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use pintle_encryption::testing::healthy_provider;
use pintle_encryption::{ConfigurationOptions, EncryptionConfiguration, ResourceTransformers, Transformer};
use pintle_registry::GroupResource;

const CONTEXT: &[u8] = b"/registry/secrets/shop/password";
const KEY_16: &str = "AAECAwQFBgcICQoLDA0ODw==";
const KEY_24: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
const KEY_32: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The shortest time of a call in several rounds.
fn measure(mut call: impl FnMut()) -> Duration {
    let round = |call: &mut dyn FnMut()| {
        const CALLS: u32 = 20_000;
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed() / CALLS
    };
    (0..20).map(|_| round(&mut call)).min().unwrap_or_default()
}

fn print(name: &str, transformer: &dyn Transformer) {
    for length in [16, 1024, 16_384] {
        let value = vec![7; length];
        let stored = transformer.encrypt(&value, CONTEXT).expect("random bytes");
        let encryption = measure(|| drop(black_box(transformer.encrypt(black_box(&value), CONTEXT))));
        let decryption = measure(|| drop(black_box(transformer.decrypt(black_box(&stored), CONTEXT))));
        let (encryption, decryption) = (encryption.as_nanos(), decryption.as_nanos());
        println!("{name:14} {length:6} bytes: encrypt {encryption:6} ns, decrypt {decryption:6} ns");
    }
}

fn main() {
    let mut nonce = [0; 12];
    println!(
        "random nonce of 12 bytes: {:.0?}",
        measure(|| getrandom::fill(black_box(&mut nonce)).expect("random bytes"))
    );
    for (provider, key) in
        [("aesgcm", KEY_16), ("aesgcm", KEY_24), ("aesgcm", KEY_32), ("aescbc", KEY_32), ("secretbox", KEY_32)]
    {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
             providers: [{{{provider}: {{keys: [{{name: key1, secret: {key}}}]}}}}]\n"
        );
        let options = ConfigurationOptions::default();
        let configuration = EncryptionConfiguration::parse(text.as_bytes(), "", options).expect("a configuration");
        let transformers = ResourceTransformers::new(&configuration, &mut |_| Err(String::new())).expect("no plugin");
        let name = format!("{provider}-{}", key.len() * 3 / 4 / 8 * 64);
        print(&name, &*transformers.of(&GroupResource::new("", "secrets")));
    }
    print("kms v2", &*healthy_provider("kms").transformer().1);
}
