//! Measures encryption and decryption by provider: `cargo run --release -p pintle-encryption --example provider_costs`.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use pintle_encryption::testing::healthy_provider;
use pintle_encryption::{
    ConfigurationOptions, EncryptionConfiguration, KmsConfiguration, ResourceTransformers, Transformer,
};
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
    let keys = [("aesgcm", KEY_16), ("aesgcm", KEY_24), ("aesgcm", KEY_32), ("aescbc", KEY_32), ("secretbox", KEY_32)];
    let providers = keys.map(|(provider, key)| {
        let name = format!("{provider}-{}", key.len() * 3 / 4 / 8 * 64);
        (name, format!("{{{provider}: {{keys: [{{name: key1, secret: {key}}}]}}}}"))
    });
    let kms = ("kms v2".to_owned(), "{kms: {apiVersion: v2, name: kms, endpoint: 'unix:///kms'}}".to_owned());
    for (name, provider) in providers.into_iter().chain([kms]) {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
             providers: [{provider}]\n"
        );
        let options = ConfigurationOptions::default();
        let configuration = EncryptionConfiguration::parse(text.as_bytes(), "", options).expect("a configuration");
        let kms = &mut |kms: &KmsConfiguration| Ok(healthy_provider(&kms.name).transformer());
        let transformers = ResourceTransformers::new(&configuration, kms).expect("healthy plugins");
        let secrets = GroupResource::new("", "secrets");
        print(&name, &*transformers.of(&secrets));
        if name == "kms v2" {
            println!("transformer of a resource: {:.0?}", measure(|| drop(black_box(transformers.of(&secrets)))));
        }
    }
}
