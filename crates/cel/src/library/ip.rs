//! IP addresses and networks, as Go's `net/netip` reads them, with its errors.

mod parse;

use std::any::Any;
use std::net::IpAddr;
use std::slice::from_ref as just;

use pintle_value::print::quote;

use self::parse::{parse_address, parse_prefix};
use super::Library;
use super::quantity::{estimate_one, estimate_parse};
use crate::cost::{CallEstimate, CallSizes, CostEstimate, PER_CHARACTER, SizeEstimate, charge};
use crate::error::EvalError;
use crate::function::{Eval, Function, Overload};
use crate::types::Type;
use crate::value::{Opaque, Outcome, Value};

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ip(IpAddr);

/// An address and how many bits of it are the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Opaque for Ip {
    fn type_name(&self) -> &str {
        "net.IP"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// In bytes.
    fn size(&self) -> Option<u64> {
        Some(if self.0.is_ipv4() { 4 } else { 16 })
    }
}

impl Opaque for Cidr {
    fn type_name(&self) -> &str {
        "net.CIDR"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// The bytes that the prefix touches.
    fn size(&self) -> Option<u64> {
        Some(u64::from(self.bits.div_ceil(8)))
    }
}

impl Cidr {
    /// The bits of an address up to a length, with the rest zero, at the upper end of 128 bits.
    fn cut(address: IpAddr, bits: u8) -> u128 {
        let value = match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        };
        value.checked_shr(128 - u32::from(bits)).map_or(0, |cut| cut << (128 - u32::from(bits)))
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Self::cut(self.address, self.bits) == Self::cut(address, self.bits)
    }

    fn masked(self) -> Self {
        let bits = Self::cut(self.address, self.bits);
        let address = match self.address {
            IpAddr::V4(_) => IpAddr::V4(((bits >> 96) as u32).into()),
            IpAddr::V6(_) => IpAddr::V6(bits.into()),
        };
        Self { address, bits: self.bits }
    }
}

pub(super) fn library() -> Library {
    let ip = Type::opaque("net.IP");
    let test = |name, id, holds: Eval| {
        Function::new(name)
            .overload(Overload::member(id, &[Type::opaque("net.IP")], Type::Bool).run(holds))
            .charge(charge::one)
            .estimate(estimate_one)
    };
    let functions = vec![
        Function::new("ip")
            .overload(Overload::global("string_to_ip", &[Type::String], ip.clone()).run(|args| match args {
                [Value::String(text)] => read(text).map(Value::opaque).map_err(EvalError::new),
                _ => Err(EvalError::no_overload()),
            }))
            .charge(charge::first)
            .estimate(estimate_parse),
        Function::new("family")
            .overload(
                Overload::member("ip_family", just(&ip), Type::Int)
                    .run(|args| Ok(Value::Int(if address(args)?.is_ipv4() { 4 } else { 6 }))),
            )
            .charge(charge::one)
            .estimate(estimate_one),
        Function::new("ip.isCanonical")
            .overload(Overload::global("ip_is_canonical", &[Type::String], Type::Bool).run(|args| match args {
                [Value::String(text)] => match read(text) {
                    Ok(ip) => Ok(Value::Bool(ip.0.to_string() == **text)),
                    Err(message) => Err(EvalError::new(message)),
                },
                _ => Err(EvalError::no_overload()),
            }))
            .charge(charge::first_twice)
            .estimate(|call| Some(CallEstimate::cost(call.size(call.args.first()?).per_unit(2.0 * PER_CHARACTER)))),
        test("isUnspecified", "ip_is_unspecified", |args| Ok(Value::Bool(address(args)?.is_unspecified()))),
        test("isLoopback", "ip_is_loopback", |args| Ok(Value::Bool(address(args)?.is_loopback()))),
        test("isLinkLocalMulticast", "ip_is_link_local_multicast", |args| {
            Ok(Value::Bool(match address(args)? {
                IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
                IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
            }))
        }),
        test("isLinkLocalUnicast", "ip_is_link_local_unicast", |args| Ok(Value::Bool(is_link_local(address(args)?)))),
        test("isGlobalUnicast", "ip_is_global_unicast", |args| {
            let ip = address(args)?;
            let special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local(ip);
            let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
            Ok(Value::Bool(!special && !broadcast))
        }),
        Function::new("isIP")
            .overload(Overload::global("is_ip", &[Type::String], Type::Bool).run(|args| match args {
                [Value::String(text)] => Ok(Value::Bool(read(text).is_ok())),
                _ => Err(EvalError::no_overload()),
            }))
            .charge(charge::first)
            .estimate(estimate_parse),
        Function::new("string").overload(
            Overload::global("ip_to_string", just(&ip), Type::String)
                .run(|args| Ok(Value::string(address(args)?.to_string()))),
        ),
    ];
    Library { functions, macros: Vec::new(), types: vec![ip] }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

fn read(text: &str) -> Result<Ip, String> {
    let (ip, zone) = parse_address(text)
        .map_err(|why| format!("IP Address {} parse error during conversion from string: {why}", quote(text)))?;
    if zone {
        return Err(format!("IP address {} with zone value is not allowed", quote(text)));
    }
    if is_mapped(ip) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)));
    }
    Ok(Ip(ip))
}

fn address(args: &[Value<'_>]) -> Outcome<IpAddr> {
    let ip = args.first().and_then(Value::as_opaque::<Ip>);
    ip.map(|ip| ip.0).ok_or_else(EvalError::no_overload)
}

pub(super) fn cidr_library() -> Library {
    let (ip, cidr) = (Type::opaque("net.IP"), Type::opaque("net.CIDR"));
    let member = |id, params: &[Type], result: Type, run: Eval| Overload::member(id, params, result).run(run);
    let functions = vec![
        Function::new("cidr")
            .overload(Overload::global("string_to_cidr", &[Type::String], cidr.clone()).run(|args| match args {
                [Value::String(text)] => network(text).map(Value::opaque),
                _ => Err(EvalError::no_overload()),
            }))
            .charge(charge::first)
            .estimate(estimate_parse),
        Function::new("containsIP")
            .overload(
                member("cidr_contains_ip_string", &[cidr.clone(), Type::String], Type::Bool, contains_ip)
                    .charge(|args, _| charge_contains(args, false, true)),
            )
            .overload(member("cidr_contains_ip_ip", &[cidr.clone(), ip.clone()], Type::Bool, contains_ip))
            .charge(|args, _| charge_contains(args, false, false))
            .estimate(|call| estimate_contains(call, false)),
        Function::new("containsCIDR")
            .overload(
                member("cidr_contains_cidr_string", &[cidr.clone(), Type::String], Type::Bool, contains_cidr)
                    .charge(|args, _| charge_contains(args, true, true)),
            )
            .overload(member("cidr_contains_cidr", &[cidr.clone(), cidr.clone()], Type::Bool, contains_cidr))
            .charge(|args, _| charge_contains(args, true, false))
            .estimate(|call| estimate_contains(call, true)),
        Function::new("ip").overload(
            member("cidr_ip", just(&cidr), ip, |args| Ok(Value::opaque(Ip(own(args)?.address))))
                .charge(charge::one)
                .estimate(estimate_one),
        ),
        Function::new("prefixLength")
            .overload(member("cidr_prefix_length", just(&cidr), Type::Int, |args| {
                Ok(Value::Int(i64::from(own(args)?.bits)))
            }))
            .estimate(estimate_one),
        Function::new("masked")
            .overload(member("cidr_masked", just(&cidr), cidr.clone(), |args| Ok(Value::opaque(own(args)?.masked()))))
            .estimate(estimate_one),
        Function::new("isCIDR")
            .overload(Overload::global("is_cidr", &[Type::String], Type::Bool).run(|args| match args {
                [Value::String(text)] => Ok(Value::Bool(network(text).is_ok())),
                _ => Err(EvalError::no_overload()),
            }))
            .charge(charge::first)
            .estimate(estimate_parse),
        Function::new("string").overload(Overload::global("cidr_to_string", just(&cidr), Type::String).run(|args| {
            let cidr = own(args)?;
            Ok(Value::string(format!("{}/{}", cidr.address, cidr.bits)))
        })),
    ];
    Library { functions, macros: Vec::new(), types: vec![cidr] }
}

fn network(text: &str) -> Outcome<Cidr> {
    // Upstream says this twice.
    const WHAT: &str = "network address parse error during conversion from string: ";
    let (address, bits) = parse_prefix(text).map_err(|why| EvalError::new(format!("{WHAT}{WHAT}{why}")))?;
    if is_mapped(address) {
        return Err(EvalError::new(format!("{WHAT}IPv4-mapped IPv6 address {} is not allowed", quote(text))));
    }
    Ok(Cidr { address, bits })
}

fn own(args: &[Value<'_>]) -> Outcome<Cidr> {
    args.first().and_then(Value::as_opaque::<Cidr>).copied().ok_or_else(EvalError::no_overload)
}

fn contains_ip<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    let cidr = own(args)?;
    let ip = match args {
        // Upstream forgets why the text is no address.
        [_, Value::String(text)] => read(text).map_err(|_| EvalError::new("no such overload"))?.0,
        [_, other] => address(std::slice::from_ref(other))?,
        _ => return Err(EvalError::no_overload()),
    };
    Ok(Value::Bool(cidr.contains(ip)))
}

fn contains_cidr<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    let cidr = own(args)?;
    let other = match args {
        [_, Value::String(text)] => network(text)?,
        [_, other] => own(std::slice::from_ref(other))?,
        _ => return Err(EvalError::no_overload()),
    };
    Ok(Value::Bool(cidr.contains(other.address) && cidr.bits <= other.bits))
}

/// A comparison of two prefixes, plus a mask for networks, plus reading what is a text.
fn charge_contains(args: &[Value<'_>], mask: bool, reads: bool) -> u64 {
    let size = |i: usize| args.get(i).map_or(1, charge::size);
    let walk = charge::traversal;
    let mut cost = walk(size(0) * 2);
    if mask {
        cost += walk(size(0)) + 1;
    }
    if reads {
        cost += walk(size(1));
    }
    cost
}

fn estimate_contains(call: &CallSizes<'_>, mask: bool) -> Option<CallEstimate> {
    let other = call.args.first()?;
    let size = SizeEstimate { min: 4, max: 16 };
    let mut cost = size.plus(size).per_unit(PER_CHARACTER);
    if mask {
        cost = cost.plus(size.per_unit(PER_CHARACTER)).plus(CostEstimate::fixed(1));
    }
    if call.overload.ends_with("_string") {
        // Upstream scales a size as if it were a cost; the outcome is the same.
        cost = cost.plus(call.size(other).per_unit(PER_CHARACTER));
    }
    Some(CallEstimate::cost(cost))
}
