//! Measures compilation and evaluation: `cargo run --release -p pintle-cel --example benchmark`.

use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use pintle_cel::{Env, PER_CALL_COST_LIMIT, Type, UnknownSizes, untyped};
use pintle_value::{Object, Value as Json};

const EXPRESSIONS: [&str; 8] = [
    "self.replicas <= self.maxReplicas",
    "self.items.all(i, i.name.startsWith('a'))",
    "self.items.exists(i, i.name == 'zzz')",
    "self.items.map(i, i.name).size() == 100",
    "self.items.filter(i, i.n % 2 == 0).size() == 50",
    "has(self.missing) ? self.missing > 3 : self.name in ['a', 'b', 'web']",
    "self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "quantity(self.cpu).isLessThan(quantity('2'))",
];

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let object = |entries: Vec<(&str, Json)>| Json::Object(Object::from_iter(entries));
    let items = (0..100).map(|n| object(vec![("name", format!("a{n}").as_str().into()), ("n", Json::Int(n))]));
    let this = object(vec![
        ("replicas", Json::Int(3)),
        ("maxReplicas", Json::Int(5)),
        ("name", "web".into()),
        ("cpu", "1500m".into()),
        ("items", Json::Array(items.collect())),
    ]);
    let env = Env::kubernetes().variable("self", Type::map(Type::String, Type::Dyn));
    let bindings = [untyped(&this)];
    let base = measure(20, || drop(black_box(Env::kubernetes())));
    let extended = measure(2_000, || drop(black_box(env.clone().variable("oldSelf", Type::Dyn))));
    writeln!(out, "base environment: {base:.0} ns, extended by a variable: {extended:.0} ns")?;
    writeln!(out, "{:>12} {:>12} {:>12} {:>8}  expression", "compile", "estimate", "evaluate", "cost")?;
    for expression in EXPRESSIONS {
        let checked = env.check(expression).map_err(std::io::Error::other)?;
        let program = env.program(&checked).map_err(std::io::Error::other)?;
        let compile = measure(500, || drop(black_box(env.compile(expression))));
        let estimate = measure(2_000, || {
            black_box(env.estimate_cost(&checked, &UnknownSizes));
        });
        let budget = PER_CALL_COST_LIMIT;
        let evaluate = measure(20_000, || drop(black_box(program.evaluate(&bindings, budget))));
        let cost = program.evaluate(&bindings, budget).cost;
        writeln!(out, "{compile:>9.0} ns {estimate:>9.0} ns {evaluate:>9.0} ns {cost:>8}  {expression}")?;
    }
    Ok(())
}

/// The duration of one run in nanoseconds, from the fastest of five rounds.
fn measure(runs: u32, mut run: impl FnMut()) -> f64 {
    let round = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        for _ in 0..runs {
            run();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(runs)
    };
    (0..5).map(|_| round(&mut run)).fold(f64::INFINITY, f64::min)
}
