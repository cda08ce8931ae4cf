//! The string and number formats of kube-apiserver 1.36 (upstream: `apiserver/validation/formats.go` for the supported
//! formats, kube-openapi's `strfmt` for their definition). Other formats are ignored.

mod calendar;
mod email;
mod identifiers;
mod network;

use pintle_value::names;

pub(crate) use calendar::parse_duration;

use super::model::Type;

/// A supported format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A BSON object id: 24 hexadecimal digits.
    BsonObjectId,
    /// An absolute URI or an absolute path.
    Uri,
    /// An email address, with or without a display name.
    Email,
    /// A host name.
    Hostname,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A CIDR.
    Cidr,
    /// A MAC address.
    Mac,
    /// A UUID.
    Uuid,
    /// A UUID of version 3.
    Uuid3,
    /// A UUID of version 4.
    Uuid4,
    /// A UUID of version 5.
    Uuid5,
    /// An ISBN of 10 or 13 digits.
    Isbn,
    /// An ISBN of 10 digits.
    Isbn10,
    /// An ISBN of 13 digits.
    Isbn13,
    /// A credit card number.
    CreditCard,
    /// A US social security number.
    Ssn,
    /// A hexadecimal color.
    HexColor,
    /// A color in the form `rgb(255, 0, 0)`.
    RgbColor,
    /// Base64.
    Byte,
    /// Any text.
    Password,
    /// A date.
    Date,
    /// A duration.
    Duration,
    /// A date-time.
    DateTime,
    /// A Kubernetes short name (DNS label); since 1.34.
    ShortName,
    /// A Kubernetes long name (DNS subdomain); since 1.34.
    LongName,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A number of 32 bits.
    Float,
    /// A number of 64 bits.
    Double,
}

/// The string formats by name, without dashes.
const STRING_FORMATS: [(&str, Format); 26] = [
    ("bsonobjectid", Format::BsonObjectId),
    ("uri", Format::Uri),
    ("email", Format::Email),
    ("hostname", Format::Hostname),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("cidr", Format::Cidr),
    ("mac", Format::Mac),
    ("uuid", Format::Uuid),
    ("uuid3", Format::Uuid3),
    ("uuid4", Format::Uuid4),
    ("uuid5", Format::Uuid5),
    ("isbn", Format::Isbn),
    ("isbn10", Format::Isbn10),
    ("isbn13", Format::Isbn13),
    ("creditcard", Format::CreditCard),
    ("ssn", Format::Ssn),
    ("hexcolor", Format::HexColor),
    ("rgbcolor", Format::RgbColor),
    ("byte", Format::Byte),
    ("password", Format::Password),
    ("date", Format::Date),
    ("duration", Format::Duration),
    ("datetime", Format::DateTime),
    ("k8sshortname", Format::ShortName),
    ("k8slongname", Format::LongName),
];

impl Format {
    /// Returns the format with this name if it applies to the type. Without a type, only string formats apply.
    #[must_use]
    pub fn named(name: &str, ty: Option<Type>) -> Option<Self> {
        match (ty, name) {
            (Some(Type::Integer), "int32") => Some(Self::Int32),
            (Some(Type::Integer), "int64") => Some(Self::Int64),
            (Some(Type::Number), "float") => Some(Self::Float),
            (Some(Type::Number), "double") => Some(Self::Double),
            (None | Some(Type::String), name) => {
                // Dashes are ignored, wherever they are.
                let same = |known: &str| name.bytes().filter(|b| *b != b'-').eq(known.bytes());
                STRING_FORMATS.iter().find(|(known, _)| same(known)).map(|(_, format)| *format)
            }
            _ => None,
        }
    }

    /// The name of a number format; empty for string formats, whose name depends on the spelling in the schema.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float",
            Self::Double => "double",
            _ => "",
        }
    }

    /// True for a string format.
    #[must_use]
    pub const fn is_string_format(self) -> bool {
        !matches!(self, Self::Int32 | Self::Int64 | Self::Float | Self::Double)
    }

    /// True if a string matches the format. Every string matches a number format.
    #[must_use]
    pub fn accepts(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Uri => pintle_cel::is_request_uri(text),
            Self::Email => email::is_address(text),
            Self::Hostname => network::is_hostname(text),
            Self::Ipv4 => network::is_ipv4(text),
            Self::Ipv6 => network::is_ipv6(text),
            Self::Cidr => network::is_cidr(text),
            Self::Mac => network::is_mac(text),
            Self::Uuid => identifiers::is_uuid(text, None),
            Self::Uuid3 => identifiers::is_uuid(text, Some('3')),
            Self::Uuid4 => identifiers::is_uuid(text, Some('4')),
            Self::Uuid5 => identifiers::is_uuid(text, Some('5')),
            Self::Isbn => identifiers::is_isbn10(text) || identifiers::is_isbn13(text),
            Self::Isbn10 => identifiers::is_isbn10(text),
            Self::Isbn13 => identifiers::is_isbn13(text),
            Self::CreditCard => identifiers::is_credit_card(text),
            Self::Ssn => identifiers::is_ssn(text),
            Self::HexColor => identifiers::is_hex_color(text),
            Self::RgbColor => identifiers::is_rgb_color(text),
            Self::Byte => identifiers::is_base64(text),
            Self::Date => calendar::is_date(text),
            Self::Duration => calendar::parse_duration(text).is_ok(),
            Self::DateTime => calendar::is_date_time(text),
            Self::ShortName => names::short_name(text).is_empty(),
            Self::LongName => names::long_name(text).is_empty(),
            Self::Password | Self::Int32 | Self::Int64 | Self::Float | Self::Double => true,
        }
    }
}
