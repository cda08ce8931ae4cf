//! IP addresses and CIDRs, with the syntax and errors of Go's `net/netip` (upstream: `apiserver/pkg/cel/library/ip.go`
//! and `cidr.go`).

use std::any::Any;
use std::net::IpAddr;
use std::slice::from_ref;

use pintle_value::netip::{parse_address, parse_prefix};
use pintle_value::print::quote;

use super::Library;
use super::quantity::{estimate_one, estimate_parse};
use crate::cost::{CallEstimate, CostEstimate, EstimatedCall, STRING_TRAVERSAL_COST_FACTOR, SizeEstimate, tracker};
use crate::error::EvalError;
use crate::function::{Function, FunctionOp, Overload};
use crate::types::Type;
use crate::value::{EvalResult, Opaque, Value};

/// An IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ip(IpAddr);

/// An address and the length of its network prefix.
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

    /// The length in bytes.
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

    /// The number of bytes that the prefix covers.
    fn size(&self) -> Option<u64> {
        Some(u64::from(self.bits.div_ceil(8)))
    }
}

impl Cidr {
    /// The first `bits` bits of an address, followed by zeros, at the upper end of 128 bits.
    fn prefix_bits(address: IpAddr, bits: u8) -> u128 {
        let value = match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        };
        value.checked_shr(128 - u32::from(bits)).map_or(0, |high| high << (128 - u32::from(bits)))
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Self::prefix_bits(self.address, self.bits) == Self::prefix_bits(address, self.bits)
    }

    fn masked(self) -> Self {
        let bits = Self::prefix_bits(self.address, self.bits);
        let address = match self.address {
            IpAddr::V4(_) => IpAddr::V4(((bits >> 96) as u32).into()),
            IpAddr::V6(_) => IpAddr::V6(bits.into()),
        };
        Self { address, bits: self.bits }
    }
}

pub(super) fn library() -> Library {
    let ip = Type::opaque("net.IP");
    let predicate = |name, id, binding: FunctionOp| {
        Function::new(name)
            .overload(Overload::member(id, &[Type::opaque("net.IP")], Type::Bool).binding(binding))
            .cost_tracker(tracker::one)
            .cost_estimator(estimate_one)
    };
    let functions = vec![
        Function::new("ip")
            .overload(Overload::global("string_to_ip", &[Type::String], ip.clone()).binding(|args| match args {
                [Value::String(text)] => parse_ip(text).map(Value::opaque).map_err(EvalError::new),
                _ => Err(EvalError::no_overload()),
            }))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_parse),
        Function::new("family")
            .overload(
                Overload::member("ip_family", from_ref(&ip), Type::Int)
                    .binding(|args| Ok(Value::Int(if ip_receiver(args)?.is_ipv4() { 4 } else { 6 }))),
            )
            .cost_tracker(tracker::one)
            .cost_estimator(estimate_one),
        Function::new("ip.isCanonical")
            .overload(Overload::global("ip_is_canonical", &[Type::String], Type::Bool).binding(|args| match args {
                [Value::String(text)] => match parse_ip(text) {
                    Ok(ip) => Ok(Value::Bool(ip.0.to_string() == **text)),
                    Err(message) => Err(EvalError::new(message)),
                },
                _ => Err(EvalError::no_overload()),
            }))
            .cost_tracker(tracker::traverse_first_twice)
            .cost_estimator(|call| {
                Some(CallEstimate::cost(call.size(call.args.first()?).times_factor(2.0 * STRING_TRAVERSAL_COST_FACTOR)))
            }),
        predicate("isUnspecified", "ip_is_unspecified", |args| Ok(Value::Bool(ip_receiver(args)?.is_unspecified()))),
        predicate("isLoopback", "ip_is_loopback", |args| Ok(Value::Bool(ip_receiver(args)?.is_loopback()))),
        predicate("isLinkLocalMulticast", "ip_is_link_local_multicast", |args| {
            Ok(Value::Bool(match ip_receiver(args)? {
                IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
                IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
            }))
        }),
        predicate("isLinkLocalUnicast", "ip_is_link_local_unicast", |args| {
            Ok(Value::Bool(is_link_local(ip_receiver(args)?)))
        }),
        predicate("isGlobalUnicast", "ip_is_global_unicast", |args| {
            let ip = ip_receiver(args)?;
            let special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local(ip);
            let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
            Ok(Value::Bool(!special && !broadcast))
        }),
        Function::new("isIP")
            .overload(Overload::global("is_ip", &[Type::String], Type::Bool).binding(|args| match args {
                [Value::String(text)] => Ok(Value::Bool(parse_ip(text).is_ok())),
                _ => Err(EvalError::no_overload()),
            }))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_parse),
        Function::new("string").overload(
            Overload::global("ip_to_string", from_ref(&ip), Type::String)
                .binding(|args| Ok(Value::string(ip_receiver(args)?.to_string()))),
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

fn parse_ip(text: &str) -> Result<Ip, String> {
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

fn ip_receiver(args: &[Value<'_>]) -> EvalResult<IpAddr> {
    let ip = args.first().and_then(Value::as_opaque::<Ip>);
    ip.map(|ip| ip.0).ok_or_else(EvalError::no_overload)
}

pub(super) fn cidr_library() -> Library {
    let (ip, cidr) = (Type::opaque("net.IP"), Type::opaque("net.CIDR"));
    let member =
        |id, params: &[Type], result: Type, binding: FunctionOp| Overload::member(id, params, result).binding(binding);
    let functions = vec![
        Function::new("cidr")
            .overload(Overload::global("string_to_cidr", &[Type::String], cidr.clone()).binding(|args| match args {
                [Value::String(text)] => parse_cidr(text).map(Value::opaque),
                _ => Err(EvalError::no_overload()),
            }))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_parse),
        Function::new("containsIP")
            .overload(
                member("cidr_contains_ip_string", &[cidr.clone(), Type::String], Type::Bool, contains_ip)
                    .cost_tracker(|args, _| track_contains(args, false, true)),
            )
            .overload(member("cidr_contains_ip_ip", &[cidr.clone(), ip.clone()], Type::Bool, contains_ip))
            .cost_tracker(|args, _| track_contains(args, false, false))
            .cost_estimator(|call| estimate_contains(call, false)),
        Function::new("containsCIDR")
            .overload(
                member("cidr_contains_cidr_string", &[cidr.clone(), Type::String], Type::Bool, contains_cidr)
                    .cost_tracker(|args, _| track_contains(args, true, true)),
            )
            .overload(member("cidr_contains_cidr", &[cidr.clone(), cidr.clone()], Type::Bool, contains_cidr))
            .cost_tracker(|args, _| track_contains(args, true, false))
            .cost_estimator(|call| estimate_contains(call, true)),
        Function::new("ip").overload(
            member("cidr_ip", from_ref(&cidr), ip, |args| Ok(Value::opaque(Ip(cidr_receiver(args)?.address))))
                .cost_tracker(tracker::one)
                .cost_estimator(estimate_one),
        ),
        Function::new("prefixLength")
            .overload(member("cidr_prefix_length", from_ref(&cidr), Type::Int, |args| {
                Ok(Value::Int(i64::from(cidr_receiver(args)?.bits)))
            }))
            .cost_estimator(estimate_one),
        Function::new("masked")
            .overload(member("cidr_masked", from_ref(&cidr), cidr.clone(), |args| {
                Ok(Value::opaque(cidr_receiver(args)?.masked()))
            }))
            .cost_estimator(estimate_one),
        Function::new("isCIDR")
            .overload(Overload::global("is_cidr", &[Type::String], Type::Bool).binding(|args| match args {
                [Value::String(text)] => Ok(Value::Bool(parse_cidr(text).is_ok())),
                _ => Err(EvalError::no_overload()),
            }))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_parse),
        Function::new("string").overload(Overload::global("cidr_to_string", from_ref(&cidr), Type::String).binding(
            |args| {
                let cidr = cidr_receiver(args)?;
                Ok(Value::string(format!("{}/{}", cidr.address, cidr.bits)))
            },
        )),
    ];
    Library { functions, macros: Vec::new(), types: vec![cidr] }
}

fn parse_cidr(text: &str) -> EvalResult<Cidr> {
    // Upstream repeats the prefix.
    const PREFIX: &str = "network address parse error during conversion from string: ";
    let (address, bits) = parse_prefix(text).map_err(|why| EvalError::new(format!("{PREFIX}{PREFIX}{why}")))?;
    if is_mapped(address) {
        return Err(EvalError::new(format!("{PREFIX}IPv4-mapped IPv6 address {} is not allowed", quote(text))));
    }
    Ok(Cidr { address, bits })
}

fn cidr_receiver(args: &[Value<'_>]) -> EvalResult<Cidr> {
    args.first().and_then(Value::as_opaque::<Cidr>).copied().ok_or_else(EvalError::no_overload)
}

fn contains_ip<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let cidr = cidr_receiver(args)?;
    let ip = match args {
        // Upstream drops the reason of the parse error.
        [_, Value::String(text)] => parse_ip(text).map_err(|_| EvalError::new("no such overload"))?.0,
        [_, other] => ip_receiver(std::slice::from_ref(other))?,
        _ => return Err(EvalError::no_overload()),
    };
    Ok(Value::Bool(cidr.contains(ip)))
}

fn contains_cidr<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let cidr = cidr_receiver(args)?;
    let other = match args {
        [_, Value::String(text)] => parse_cidr(text)?,
        [_, other] => cidr_receiver(std::slice::from_ref(other))?,
        _ => return Err(EvalError::no_overload()),
    };
    Ok(Value::Bool(cidr.contains(other.address) && cidr.bits <= other.bits))
}

/// The cost of comparing two prefixes, plus masking for CIDRs, plus parsing a string argument.
fn track_contains(args: &[Value<'_>], mask: bool, parses: bool) -> u64 {
    let size = |i: usize| args.get(i).map_or(1, tracker::actual_size);
    let traversal_cost = tracker::traversal_cost;
    let mut cost = traversal_cost(size(0) * 2);
    if mask {
        cost += traversal_cost(size(0)) + 1;
    }
    if parses {
        cost += traversal_cost(size(1));
    }
    cost
}

fn estimate_contains(call: &EstimatedCall<'_>, mask: bool) -> Option<CallEstimate> {
    let other = call.args.first()?;
    let size = SizeEstimate { min: 4, max: 16 };
    let mut cost = size.plus(size).times_factor(STRING_TRAVERSAL_COST_FACTOR);
    if mask {
        cost = cost.plus(size.times_factor(STRING_TRAVERSAL_COST_FACTOR)).plus(CostEstimate::fixed(1));
    }
    if call.overload.ends_with("_string") {
        // Upstream scales a size as if it were a cost. The result is the same.
        cost = cost.plus(call.size(other).times_factor(STRING_TRAVERSAL_COST_FACTOR));
    }
    Some(CallEstimate::cost(cost))
}
