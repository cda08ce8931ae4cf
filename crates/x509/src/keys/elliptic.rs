//! Keys on the curves that Go's `crypto/elliptic` knows (FIPS 186-5, SP 800-186). This module verifies signatures on
//! the curves that `ring` does not know (SEC 1, section 4.1.4).

use std::sync::LazyLock;

use num_bigint::BigUint;

use super::der;
use super::montgomery::{Element, Modulus};

/// A curve: y² = x³ - 3x + b over the integers modulo a prime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// P-224, which TLS 1.3 does not have.
    P224,
    /// P-256.
    P256,
    /// P-384.
    P384,
    /// P-521.
    P521,
}

/// The parameters of a curve. Only the verification of signatures needs the generator and its order.
struct Parameters {
    prime: BigUint,
    b: BigUint,
    order: BigUint,
    generator: Affine,
}

/// A point other than the point at infinity.
type Affine = (BigUint, BigUint);

static P224: LazyLock<Parameters> = LazyLock::new(|| {
    Parameters::new(
        "ffffffffffffffffffffffffffffffff000000000000000000000001",
        "b4050a850c04b3abf54132565044b0b7d7bfd8ba270b39432355ffb4",
        "ffffffffffffffffffffffffffff16a2e0b8f03e13dd29455c5c2a3d",
        [
            "b70e0cbd6bb4bf7f321390b94a03c1d356c21122343280d6115c1d21",
            "bd376388b5f723fb4c22dfe6cd4375a05a07476444d5819985007e34",
        ],
    )
});

static P256: LazyLock<Parameters> = LazyLock::new(|| {
    Parameters::new(
        "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
        "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
        "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        [
            "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
            "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
        ],
    )
});

static P384: LazyLock<Parameters> = LazyLock::new(|| {
    Parameters::new(
        "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff0000000000000000ffffffff",
        "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef",
        "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973",
        [
            "aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7",
            "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f",
        ],
    )
});

static P521: LazyLock<Parameters> = LazyLock::new(|| {
    Parameters::new(
        "1ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\
         ffffffffffffffffffffffffffffffffff",
        "51953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf\
         073573df883d2c34f1ef451fd46b503f00",
        "1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5\
         d03bb5c9b8899c47aebb6fb71e91386409",
        [
            "c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8\
             de3348b3c1856a429bf97e7e31c2e5bd66",
            "11839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0\
             761353c7086a272c24088be94769fd16650",
        ],
    )
});

impl Curve {
    pub(super) const ALL: [Self; 4] = [Self::P224, Self::P256, Self::P384, Self::P521];

    /// The name that Go gives the curve.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::P224 => "P-224",
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
        }
    }

    pub(super) const fn oid(self) -> &'static str {
        match self {
            Self::P224 => "1.3.132.0.33",
            Self::P256 => "1.2.840.10045.3.1.7",
            Self::P384 => "1.3.132.0.34",
            Self::P521 => "1.3.132.0.35",
        }
    }

    fn parameters(self) -> &'static Parameters {
        match self {
            Self::P224 => &P224,
            Self::P256 => &P256,
            Self::P384 => &P384,
            Self::P521 => &P521,
        }
    }
}

/// A public key: a point of a curve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EcdsaKey {
    curve: Curve,
    /// The point, uncompressed.
    point: Vec<u8>,
}

impl EcdsaKey {
    /// Parses an uncompressed point, which must be on the curve.
    pub(super) fn parse(curve: Curve, point: &[u8]) -> Option<Self> {
        let parameters = curve.parameters();
        let key = Self { curve, point: point.to_vec() };
        let (x, y) = key.coordinates()?;
        parameters.contains(&x, &y).then_some(key)
    }

    /// The curve of the point.
    #[must_use]
    pub const fn curve(&self) -> Curve {
        self.curve
    }

    /// The point, uncompressed.
    pub(super) fn point(&self) -> &[u8] {
        &self.point
    }

    fn coordinates(&self) -> Option<Affine> {
        const UNCOMPRESSED: u8 = 4;
        let coordinates = self.point.strip_prefix(&[UNCOMPRESSED])?;
        let length = self.curve.parameters().prime.bits().div_ceil(8) as usize;
        if coordinates.len() != 2 * length {
            return None;
        }
        let (x, y) = coordinates.split_at(length);
        Some((BigUint::from_bytes_be(x), BigUint::from_bytes_be(y)))
    }

    /// Whether `signature` is a signature of a digest, in DER (`ecdsa.VerifyASN1`).
    #[must_use]
    pub fn verify(&self, digest: &[u8], signature: &[u8]) -> bool {
        let Some([r, s]) = der::pair_of_positive(signature) else { return false };
        let (curve, order) = (self.curve.parameters(), &self.curve.parameters().order);
        let (Some(point), true) = (self.coordinates(), r < *order && s < *order) else { return false };
        let Some(inverse) = s.modinv(order) else { return false };
        let (u, v) = (leading_bits(digest, order.bits()) * &inverse % order, &r * inverse % order);
        curve.sum_of_multiples(&u, &v, &point).is_some_and(|(x, _)| x % order == r)
    }
}

/// The number that the first bits of a digest encode.
fn leading_bits(digest: &[u8], bits: u64) -> BigUint {
    let number = BigUint::from_bytes_be(digest);
    let excess = (digest.len() as u64 * 8).saturating_sub(bits);
    number >> excess
}

/// A point with X = x/z², Y = y/z³. The point at infinity has z = 0.
#[derive(Clone)]
struct Jacobian<const N: usize> {
    x: Element<N>,
    y: Element<N>,
    z: Element<N>,
}

/// The arithmetic of points whose coordinates have `N` digits.
struct Group<const N: usize>(Modulus<N>);

impl<const N: usize> Group<N> {
    /// `u` times one point plus `v` times another; `None` for the point at infinity.
    fn sum_of_multiples(&self, u: &BigUint, first: &Affine, v: &BigUint, second: &Affine) -> Option<[BigUint; 3]> {
        let one = self.0.element(&BigUint::from(1_u8));
        let point = |(x, y): &Affine| Jacobian { x: self.0.element(x), y: self.0.element(y), z: one };
        let (first, second) = (point(first), point(second));
        let both = self.add(&first, &second);
        let mut sum = Jacobian { x: one, y: one, z: [0; N] };
        for bit in (0..u.bits().max(v.bits())).rev() {
            sum = self.double(&sum);
            sum = match (u.bit(bit), v.bit(bit)) {
                (false, false) => sum,
                (true, false) => self.add(&sum, &first),
                (false, true) => self.add(&sum, &second),
                (true, true) => self.add(&sum, &both),
            };
        }
        (sum.z != [0; N]).then(|| [&sum.x, &sum.y, &sum.z].map(|element| self.0.number(element)))
    }

    fn double(&self, Jacobian { x, y, z }: &Jacobian<N>) -> Jacobian<N> {
        let field = &self.0;
        let twice = |a: &Element<N>| field.add(a, a);
        let (delta, gamma) = (field.multiply(z, z), field.multiply(y, y));
        let beta = field.multiply(x, &gamma);
        let product = field.multiply(&field.subtract(x, &delta), &field.add(x, &delta));
        let alpha = field.add(&twice(&product), &product);
        let four_beta = twice(&twice(&beta));
        let new_x = field.subtract(&field.multiply(&alpha, &alpha), &twice(&four_beta));
        let new_z = twice(&field.multiply(y, z));
        let eight_squares = twice(&twice(&twice(&field.multiply(&gamma, &gamma))));
        let new_y = field.subtract(&field.multiply(&alpha, &field.subtract(&four_beta, &new_x)), &eight_squares);
        Jacobian { x: new_x, y: new_y, z: new_z }
    }

    fn add(&self, a: &Jacobian<N>, b: &Jacobian<N>) -> Jacobian<N> {
        let field = &self.0;
        if a.z == [0; N] {
            return b.clone();
        }
        if b.z == [0; N] {
            return a.clone();
        }
        let (a_square, b_square) = (field.multiply(&a.z, &a.z), field.multiply(&b.z, &b.z));
        let (u1, u2) = (field.multiply(&a.x, &b_square), field.multiply(&b.x, &a_square));
        let s1 = field.multiply(&field.multiply(&a.y, &b_square), &b.z);
        let s2 = field.multiply(&field.multiply(&b.y, &a_square), &a.z);
        let (h, r) = (field.subtract(&u2, &u1), field.subtract(&s2, &s1));
        if h == [0; N] {
            let infinity = || Jacobian { x: a.x, y: a.y, z: [0; N] };
            return if r == [0; N] { self.double(a) } else { infinity() };
        }
        let h_square = field.multiply(&h, &h);
        let h_cube = field.multiply(&h_square, &h);
        let v = field.multiply(&u1, &h_square);
        let x = field.subtract(&field.multiply(&r, &r), &field.add(&h_cube, &field.add(&v, &v)));
        let y = field.subtract(&field.multiply(&r, &field.subtract(&v, &x)), &field.multiply(&s1, &h_cube));
        Jacobian { x, y, z: field.multiply(&field.multiply(&h, &a.z), &b.z) }
    }
}

impl Parameters {
    fn new(prime: &str, b: &str, order: &str, generator: [&str; 2]) -> Self {
        let number = |hex: &str| BigUint::parse_bytes(hex.as_bytes(), 16).unwrap_or_default();
        let [x, y] = generator.map(number);
        Self { prime: number(prime), b: number(b), order: number(order), generator: (x, y) }
    }

    /// Whether the coordinates belong to a point of the curve.
    fn contains(&self, x: &BigUint, y: &BigUint) -> bool {
        let p = &self.prime;
        let is_reduced = x < p && y < p;
        is_reduced && y * y % p == self.minus(&(x * x * x + &self.b), &(x * 3_u8))
    }

    fn minus(&self, a: &BigUint, b: &BigUint) -> BigUint {
        let p = &self.prime;
        (a % p + p - b % p) % p
    }

    /// `u` times the generator plus `v` times `point`; `None` for the point at infinity.
    fn sum_of_multiples(&self, u: &BigUint, v: &BigUint, point: &Affine) -> Option<Affine> {
        let (p, generator) = (&self.prime, &self.generator);
        let [x, y, z] = match p.bits() {
            ..=256 => Group(Modulus::<4>::new(p)).sum_of_multiples(u, generator, v, point),
            257..=384 => Group(Modulus::<6>::new(p)).sum_of_multiples(u, generator, v, point),
            _ => Group(Modulus::<9>::new(p)).sum_of_multiples(u, generator, v, point),
        }?;
        let inverse = z.modinv(p)?;
        let square = &inverse * &inverse % p;
        Some((x * &square % p, y * (square * inverse % p) % p))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_are_on_their_curves_and_have_their_order() {
        let zero = BigUint::ZERO;
        for curve in Curve::ALL {
            let parameters = curve.parameters();
            let (x, y) = &parameters.generator;
            assert!(parameters.contains(x, y), "{curve:?}");
            assert!(!parameters.contains(y, x), "{curve:?}");
            let multiple = |number: &BigUint| parameters.sum_of_multiples(number, &zero, &parameters.generator);
            assert_eq!(multiple(&parameters.order), None, "{curve:?}");
            let opposite = (x.clone(), &parameters.prime - y);
            assert_eq!(multiple(&(&parameters.order - 1_u8)), Some(opposite), "{curve:?}");
            // A sum of a point and itself, where the addition has to double.
            let one = BigUint::from(1_u8);
            let twice = parameters.sum_of_multiples(&one, &one, &parameters.generator);
            assert_eq!(twice, multiple(&BigUint::from(2_u8)), "{curve:?}");
        }
    }

    #[test]
    fn digests_longer_than_the_order_are_cut() {
        assert_eq!(leading_bits(&[0xff, 0x80], 9), BigUint::from(0x1ff_u16));
        assert_eq!(leading_bits(&[0xff], 9), BigUint::from(0xff_u16));
    }
}
