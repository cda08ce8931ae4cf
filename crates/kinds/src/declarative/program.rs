//! Rules of types in the form that the interpreter runs, compiled from their lines
//! ([`pintle_catalog::rules`]).

use pintle_catalog::rules::{FieldRules, PackageRules, Rule, RuleValue, TypeRules, parse_package};
use pintle_versions::{Minor, MinorRange};

use super::arguments::{GATES, argument, named_arguments, number};
use super::formats::{self, Format};
use super::functions::{self, Function};

/// The versions in which the value of a new item or of a new struct has no update to check.
const NEW_VALUES_ARE_NOT_UPDATED: MinorRange = MinorRange::since(Minor::new(37));

/// The compiled rules of a type and of the types that its fields lead to.
#[derive(Debug)]
pub(super) struct Program {
    /// The types. The first one is the type that was asked for.
    pub(super) types: Vec<Type>,
    /// The subresources through which objects of the type are written: `/status`.
    pub(super) subresources: Vec<&'static str>,
    /// Whether constraints of updates apply to values without an old owner.
    pub(super) updates_new_values: bool,
}

impl Program {
    /// Whether no object can have an error.
    pub(super) fn is_empty(&self) -> bool {
        self.types.first().is_none_or(|ty| ty.steps.is_empty() && ty.next.is_none() && ty.fields.is_empty())
    }
}

/// A type with rules.
#[derive(Debug, Default)]
pub(super) struct Type {
    pub(super) steps: Steps,
    pub(super) fields: Vec<Field>,
    /// The items of a named list, or the values of a named map.
    pub(super) next: Option<Next>,
}

/// A field with rules. The name of an inlined field is empty.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) steps: Steps,
    pub(super) next: Option<Next>,
}

/// The sort of a Go type. It decides which values are unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Pointer,
    Text,
    Number,
    Bool,
    List,
    Map,
    Struct,
}

/// The types whose rules are applied after the rules of a field.
#[derive(Debug)]
pub(super) enum Next {
    /// The type of the field.
    Type(usize),
    /// The type of the items of a list.
    Items { ty: usize, shape: Shape, identity: Identity },
    /// The type of the values of a map.
    Values { ty: usize, shape: Shape },
}

/// Which item of an old list an item is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    None,
    /// An equal one.
    Whole,
    /// The item with the same values of these fields.
    Keys(Vec<&'static str>),
}

/// The checks of a field or type. If a gate fails, the other checks of its cohort are skipped; if a gate of the first
/// cohort fails, all others are.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) cohorts: Vec<Cohort>,
}

/// Checks that depend on the same gates.
#[derive(Debug, Default)]
pub(super) struct Cohort {
    name: String,
    pub(super) gates: Vec<Check>,
    pub(super) rest: Vec<Check>,
}

/// A check of a value.
#[derive(Debug)]
pub(super) enum Check {
    /// Another check, whose errors have this detail.
    Detailed(&'static str, Box<Check>),
    /// A check in beta, whose errors replace the errors of code.
    Beta(Box<Check>),
    /// A gate in alpha, whose errors nobody sees.
    Hidden(Box<Check>),
    /// A rule that only code can express.
    Code(Function),
    Port,
    WildcardAlone,
    Required,
    Forbidden,
    /// Fails without an error if the value is unset.
    Optional,
    MaxLength(usize),
    MinLength(usize),
    MaxBytes(usize),
    MaxItems(usize),
    MinItems(usize),
    MaxProperties(usize),
    MinProperties(usize),
    Monotonic,
    Minimum(i64),
    Maximum(i64),
    GreaterThan(i64),
    NotEqual(&'static str),
    Format(Format),
    Enum(Vec<&'static str>),
    Immutable,
    NoSet,
    NoUnset,
    NoModify,
    NoAddItem(Identity),
    NoRemoveItem(Identity),
    Unique(Identity),
    EachVal {
        check: Box<Check>,
        shape: Shape,
        identity: Identity,
    },
    EachKey(Box<Check>),
    Subfield {
        name: &'static str,
        shape: Shape,
        check: Box<Check>,
    },
    Item {
        keys: Vec<(&'static str, &'static str)>,
        check: Box<Check>,
    },
    If {
        option: &'static str,
        enabled: bool,
        check: Box<Check>,
    },
    Union(Union),
    Discriminated(Discriminated),
    Dependent(Dependent),
}

/// A field that must be set, or must not be set, if another one is.
#[derive(Debug)]
pub(super) struct Dependent {
    pub(super) field: (&'static str, Shape),
    pub(super) other: (&'static str, Shape),
    /// Whether the other field must be set.
    pub(super) is_required: bool,
}

/// Fields or items of which a number may be set.
#[derive(Debug, Default)]
pub(super) struct Union {
    name: &'static str,
    pub(super) members: Vec<Member>,
    pub(super) discriminator: Option<&'static str>,
    pub(super) may_be_empty: bool,
    level: Level,
}

/// A member of a union.
#[derive(Debug)]
pub(super) struct Member {
    /// The name in messages.
    pub(super) name: String,
    /// The value of the discriminator.
    pub(super) value: &'static str,
    pub(super) of: MemberOf,
}

/// Where a member of a union is.
#[derive(Debug)]
pub(super) enum MemberOf {
    Field(&'static str, Shape),
    Item(Vec<(&'static str, &'static str)>),
}

/// The checks of a field that depend on the value of another one. With other values the field is forbidden.
#[derive(Debug)]
pub(super) struct Discriminated {
    pub(super) discriminator: &'static str,
    pub(super) field: &'static str,
    pub(super) shape: Shape,
    pub(super) cases: Vec<(&'static str, Cohort)>,
}

/// How stable a rule is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Level {
    Alpha,
    Beta,
    #[default]
    Stable,
}

impl Level {
    fn wrap(self, check: Check) -> Check {
        if self == Level::Beta { Check::Beta(Box::new(check)) } else { check }
    }
}

impl Shape {
    fn of(ty: &str) -> Self {
        match ty {
            _ if ty.starts_with('*') => Shape::Pointer,
            "string" | "[]byte" | "Time" | "meta/v1.Time" => Shape::Text,
            "bool" => Shape::Bool,
            "int" | "int32" | "int64" | "byte" => Shape::Number,
            _ if ty.starts_with("[]") => Shape::List,
            _ if ty.starts_with("map[") => Shape::Map,
            _ => Shape::Struct,
        }
    }
}

impl Cohort {
    fn push(&mut self, gate: bool, check: Check) {
        if gate { self.gates.push(check) } else { self.rest.push(check) }
    }
}

impl Steps {
    fn push(&mut self, step: Step) {
        // The first cohort is the unnamed one, even if it is empty.
        if self.cohorts.is_empty() {
            self.cohorts.push(Cohort::default());
        }
        match self.cohorts.iter_mut().find(|cohort| cohort.name == step.cohort) {
            Some(cohort) => cohort.push(step.gate, step.check),
            None => {
                let mut cohort = Cohort { name: step.cohort, ..Cohort::default() };
                cohort.push(step.gate, step.check);
                self.cohorts.push(cohort);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.cohorts.is_empty()
    }

    /// Whether the steps have no errors of their own. They may still stop the checks that follow them.
    fn is_silent(&self) -> bool {
        self.cohorts.iter().all(|cohort| cohort.rest.is_empty() && cohort.gates.iter().all(Check::is_silent))
    }
}

impl Check {
    fn is_silent(&self) -> bool {
        match self {
            Check::Hidden(_) | Check::Optional => true,
            Check::Beta(check)
            | Check::If { check, .. }
            | Check::EachKey(check)
            | Check::EachVal { check, .. }
            | Check::Item { check, .. }
            | Check::Subfield { check, .. } => check.is_silent(),
            _ => false,
        }
    }
}

/// A check with its place among the others.
struct Step {
    check: Check,
    gate: bool,
    cohort: String,
}

impl Step {
    fn new(check: Check, gate: bool) -> Self {
        Self { check, gate, cohort: String::new() }
    }

    fn wrapped(self, wrap: impl FnOnce(Box<Check>) -> Check) -> Self {
        Self { check: wrap(Box::new(self.check)), ..self }
    }
}

/// The type or field that has rules.
#[derive(Clone, Copy)]
struct Place<'c> {
    name: &'static str,
    ty: &'static str,
    shape: Shape,
    list: &'c ListFacts,
}

/// The rules of a list about its items.
#[derive(Debug)]
struct ListFacts {
    identity: Identity,
    /// The level of the rule that items are unique.
    unique: Option<Level>,
}

/// Compiles the rules of a type and of the types of its fields.
pub(super) struct Compiler {
    text: &'static str,
    minor: Minor,
    with_alpha: bool,
    /// The packages that were needed so far.
    packages: Vec<PackageRules<'static>>,
    /// The package of the type that is being compiled.
    package: &'static str,
    /// The name of the type that is being compiled.
    owner: &'static str,
    /// The packages and names of the types.
    names: Vec<(&'static str, &'static str)>,
    types: Vec<Type>,
}

impl Compiler {
    /// A compiler of the rules of a file in a version.
    pub(super) fn new(text: &'static str, minor: Minor, with_alpha: bool) -> Self {
        let (packages, names, types) = Default::default();
        Self { text, minor, with_alpha, packages, package: "", owner: "", names, types }
    }

    /// Compiles a type of a package. The program is empty if there are no rules of the type in the version.
    ///
    /// # Errors
    /// Returns a description of the first rule that cannot be compiled.
    pub(super) fn compile(mut self, package: &'static str, name: &'static str) -> Result<Program, String> {
        self.package = package;
        self.type_index(name)?;
        let subresources = self.find(name)?.map(|rules| supported_subresources(&rules.rules)).unwrap_or_default();
        drop_silent(&mut self.types);
        let updates_new_values = !NEW_VALUES_ARE_NOT_UPDATED.contains(self.minor);
        Ok(Program { types: self.types, subresources, updates_new_values })
    }

    /// The rules of a type of the current package, or of another one (`core/v1.PodSpec`).
    fn find(&mut self, name: &'static str) -> Result<Option<TypeRules<'static>>, String> {
        let (package, name) = name.rsplit_once('.').unwrap_or((self.package, name));
        if !self.packages.iter().any(|known| known.name == package) {
            let found = parse_package(self.text, package, self.minor).map_err(|error| error.to_string())?;
            self.packages.push(found.unwrap_or(PackageRules { name: package, types: Vec::new() }));
        }
        let mut packages = self.packages.iter().filter(|known| known.name == package);
        Ok(packages.find_map(|package| package.types.iter().find(|ty| ty.name == name)).cloned())
    }

    /// The index of a type, which is compiled if it is not yet. `None` if it has no rules.
    fn type_index(&mut self, name: &'static str) -> Result<Option<usize>, String> {
        let key = name.rsplit_once('.').unwrap_or((self.package, name));
        if let Some(index) = self.names.iter().position(|known| *known == key) {
            return Ok(Some(index));
        }
        let Some(rules) = self.find(name)? else { return Ok(None) };
        let index = self.types.len();
        self.names.push(key);
        self.types.push(Type::default());
        let outer = (self.package, self.owner);
        (self.package, self.owner) = key;
        let compiled = self.compile_type(&rules).map_err(|problem| format!("{name}: {problem}"));
        (self.package, self.owner) = outer;
        if let Some(ty) = self.types.get_mut(index) {
            *ty = compiled?;
        }
        Ok(Some(index))
    }

    fn compile_type(&mut self, ty: &TypeRules<'static>) -> Result<Type, String> {
        let underlying = ty.underlying.unwrap_or_default();
        let list = self.list_facts(&ty.rules)?;
        let shape = if ty.underlying.is_some() { Shape::of(underlying) } else { Shape::Struct };
        let place = Place { name: ty.name, ty: underlying, shape, list: &list };
        let mut steps = self.steps(&ty.rules, place)?;
        for check in self.discriminated(&ty.fields)? {
            steps.push(Step::new(check, false));
        }
        for union in self.unions(&ty.fields)? {
            steps.push(Step::new(union.level.wrap(Check::Union(union)), false));
        }
        for check in self.dependents(&ty.fields)? {
            steps.push(Step::new(check, false));
        }
        let next = self.next(underlying, &list)?;
        let mut fields = Vec::new();
        for field in &ty.fields {
            let compiled = self.compile_field(field).map_err(|problem| format!("{}: {problem}", field.name))?;
            if !compiled.steps.is_empty() || compiled.next.is_some() {
                fields.push(compiled);
            }
        }
        Ok(Type { steps, fields, next })
    }

    fn compile_field(&mut self, field: &FieldRules<'static>) -> Result<Field, String> {
        let list = self.list_facts(&field.rules)?;
        let shape = self.shape(field.ty)?;
        let steps = self.steps(&field.rules, Place { name: field.name, ty: field.ty, shape, list: &list })?;
        let next = self.next(field.ty, &list)?;
        Ok(Field { name: field.name, shape, steps, next })
    }

    /// The shape of a type, which may be a name of a type that is not a struct.
    fn shape(&mut self, ty: &'static str) -> Result<Shape, String> {
        Ok(match self.find(ty)?.and_then(|found| found.underlying) {
            Some(underlying) => Shape::of(underlying),
            None => Shape::of(ty),
        })
    }

    fn next(&mut self, ty: &'static str, list: &ListFacts) -> Result<Option<Next>, String> {
        if let Some(item) = ty.strip_prefix("[]") {
            let shape = self.shape(item)?;
            let index = self.type_index(item.trim_start_matches('*'))?;
            return Ok(index.map(|ty| Next::Items { ty, shape, identity: list.identity.clone() }));
        }
        if let Some((_, value)) = ty.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
            let shape = self.shape(value)?;
            return Ok(self.type_index(value.trim_start_matches('*'))?.map(|ty| Next::Values { ty, shape }));
        }
        Ok(self.type_index(ty.trim_start_matches('*'))?.map(Next::Type))
    }

    /// The rule inside of its level, and the level.
    fn of_level<'r>(rule: &'r Rule<'static>) -> (&'r Rule<'static>, Level) {
        match (&rule.value, rule.name) {
            (RuleValue::Rule(inner), "alpha") => (inner, Level::Alpha),
            (RuleValue::Rule(inner), "beta") => (inner, Level::Beta),
            _ => (rule, Level::Stable),
        }
    }

    /// Whether clients can see the errors of a level.
    fn applies(&self, level: Level) -> bool {
        level != Level::Alpha || self.with_alpha
    }

    fn list_facts(&self, rules: &[Rule<'static>]) -> Result<ListFacts, String> {
        let (mut semantic, mut keys, mut unique, mut is_custom) = ("", Vec::new(), None, false);
        for (rule, level) in rules.iter().map(Self::of_level) {
            match (rule.name, &rule.value) {
                // The uniqueness of an atomic list is said by another rule.
                ("listType", RuleValue::Text("atomic")) => {}
                ("listType" | "unique", RuleValue::Text(text)) => {
                    (semantic, unique) = (*text, self.applies(level).then_some(level));
                }
                ("listMapKey", RuleValue::Text(key)) => keys.push(*key),
                ("customUnique", _) => is_custom = true,
                _ => {}
            }
        }
        let identity = match semantic {
            "" => Identity::None,
            "set" => Identity::Whole,
            "map" if !keys.is_empty() => Identity::Keys(keys),
            _ => return Err(format!("cannot compare items of a {semantic}")),
        };
        Ok(ListFacts { identity, unique: unique.filter(|_| !is_custom) })
    }

    /// The steps of the rules of a field or type.
    fn steps(&self, rules: &[Rule<'static>], place: Place<'_>) -> Result<Steps, String> {
        let mut steps = Steps::default();
        for (rule, level) in rules.iter().map(Self::of_level) {
            // The type that has the field applies these.
            if rule.name == "member" {
                continue;
            }
            if rule.name == "customValidation" && self.applies(level) {
                let function = functions::custom(self.package, self.owner, place.name);
                let function = function.ok_or("there is no function for customValidation")?;
                steps.push(Step::new(level.wrap(Check::Code(function)), false));
            }
            for step in Self::compile_rule(rule, place)? {
                if self.applies(level) {
                    steps.push(step.wrapped(|check| level.wrap(*check)));
                } else if step.gate {
                    steps.push(step.wrapped(Check::Hidden));
                }
            }
        }
        if let Some(level) = place.list.unique {
            steps.push(Step::new(level.wrap(Check::Unique(place.list.identity.clone())), false));
        }
        for union in self.item_unions(rules, place)? {
            steps.push(Step::new(union.level.wrap(Check::Union(union)), false));
        }
        let mut updates: Vec<(&str, Level)> = rules
            .iter()
            .map(Self::of_level)
            .filter_map(|(rule, level)| match (rule.name, &rule.value) {
                ("update", RuleValue::Text(text)) => Some((*text, level)),
                _ => None,
            })
            .collect();
        // Upstream's order of the constraints.
        let order = ["NoSet", "NoUnset", "NoModify", "NoAddItem", "NoRemoveItem"];
        updates.sort_by_key(|(text, _)| order.iter().position(|known| known == text));
        for (text, level) in updates {
            let check = match text {
                "NoSet" => Check::NoSet,
                "NoUnset" => Check::NoUnset,
                "NoModify" => Check::NoModify,
                "NoAddItem" => Check::NoAddItem(place.list.identity.clone()),
                "NoRemoveItem" => Check::NoRemoveItem(place.list.identity.clone()),
                _ => return Err(format!("unknown constraint of updates {text}")),
            };
            let check = if self.applies(level) { level.wrap(check) } else { Check::Hidden(Box::new(check)) };
            steps.push(Step::new(check, true));
        }
        Ok(steps)
    }

    /// The steps of one rule. Rules that only inform others have none.
    fn compile_rule(rule: &Rule<'static>, place: Place<'_>) -> Result<Vec<Step>, String> {
        let text = match &rule.value {
            RuleValue::Rule(inner) => return Self::compile_outer(rule, inner, place),
            RuleValue::Text(text) => *text,
            RuleValue::None => "",
        };
        let check = match rule.name {
            "required" | "optional" | "forbidden" if place.shape == Shape::Struct => {
                return Err(format!("{} of a struct", rule.name));
            }
            "required" => Check::Required,
            "optional" => Check::Optional,
            // Nothing is checked of a value that is neither allowed nor there.
            "forbidden" => {
                return Ok(vec![Step::new(detailed(rule, Check::Forbidden), true), Step::new(Check::Optional, true)]);
            }
            "immutable" => Check::Immutable,
            "maxItems" => Check::MaxItems(number(text)?),
            "nonEmpty" => Check::Required,
            "port" => Check::Port,
            "wildcardAlone" => Check::WildcardAlone,
            "check" => Check::Code(functions::of(text).ok_or_else(|| format!("unknown function {text}"))?),
            "minItems" => Check::MinItems(number(text)?),
            "maxProperties" => Check::MaxProperties(number(text)?),
            "minProperties" => Check::MinProperties(number(text)?),
            "monotonic" => Check::Monotonic,
            "maxLength" => Check::MaxLength(number(text)?),
            "minLength" => Check::MinLength(number(text)?),
            "maxBytes" => Check::MaxBytes(number(text)?),
            "minimum" => Check::Minimum(number(text)?),
            "maximum" => Check::Maximum(number(text)?),
            "greaterThan" => Check::GreaterThan(number(text)?),
            "neq" => Check::NotEqual(text),
            "format" => Check::Format(formats::of(text).ok_or_else(|| format!("unknown format {text}"))?),
            "enum" => {
                let mut values: Vec<&str> = text.split('|').collect();
                values.sort_unstable();
                Check::Enum(values)
            }
            "oneOf" => Check::Enum(text.split('|').collect()),
            _ => return Ok(Vec::new()),
        };
        let is_gate = GATES.contains(&rule.name);
        Ok(vec![Step::new(detailed(rule, check), is_gate)])
    }

    /// The steps of a rule that applies another one.
    fn compile_outer(rule: &Rule<'static>, inner: &Rule<'static>, place: Place<'_>) -> Result<Vec<Step>, String> {
        let argument = rule.arguments;
        let identity = &place.list.identity;
        match rule.name {
            "ifEnabled" | "ifDisabled" => {
                let enabled = rule.name == "ifEnabled";
                let steps = Self::compile_rule(inner, place)?.into_iter();
                Ok(steps.map(|step| step.wrapped(|check| Check::If { option: argument, enabled, check })).collect())
            }
            "eachVal" => {
                let ty = place.ty.strip_prefix("[]").or_else(|| place.ty.split_once(']').map(|(_, value)| value));
                let ty = ty.ok_or_else(|| format!("{} is neither a list nor a map", place.ty))?;
                let shape = Shape::of(ty);
                let steps = Self::compile_rule(inner, Place { ty, shape, ..place })?.into_iter();
                let wrap = |check| Check::EachVal { check, shape, identity: identity.clone() };
                Ok(steps.map(|step| step.wrapped(wrap)).collect())
            }
            "eachKey" => {
                let steps = Self::compile_rule(inner, Place { ty: "string", shape: Shape::Text, ..place })?.into_iter();
                Ok(steps.map(|step| step.wrapped(Check::EachKey)).collect())
            }
            // Upstream has rules for the fields of structs without rules, all of which are strings.
            "subfield" => {
                let shape = Shape::Text;
                let steps = Self::compile_rule(inner, Place { name: argument, ty: "string", shape, ..place })?;
                Ok(steps
                    .into_iter()
                    .map(|step| Step { cohort: argument.to_owned(), ..step })
                    .map(|step| step.wrapped(|check| Check::Subfield { name: argument, shape, check }))
                    .collect())
            }
            "item" => {
                let ty = place.ty.strip_prefix("[]").ok_or_else(|| format!("{} is not a list", place.ty))?;
                let steps = Self::compile_rule(inner, Place { ty, shape: Shape::Struct, ..place })?.into_iter();
                let wrap = |check| Check::Item { keys: named_arguments(argument), check };
                Ok(steps
                    .map(|step| Step { cohort: argument.to_owned(), ..step })
                    .map(|step| step.wrapped(wrap))
                    .collect())
            }
            name => Err(format!("{name} inside of another rule")),
        }
    }

    /// The unions of the fields of a struct, sorted by name.
    fn unions(&mut self, fields: &[FieldRules<'static>]) -> Result<Vec<Union>, String> {
        let mut unions: Vec<Union> = Vec::new();
        for field in fields {
            for (rule, level) in field.rules.iter().map(Self::of_level) {
                let (is_discriminator, may_be_empty) = match rule.name {
                    "unionMember" => (false, false),
                    "zeroOrOneOfMember" => (false, true),
                    "unionDiscriminator" => (true, false),
                    _ => continue,
                };
                let union = union_of(&mut unions, argument(rule, "union"), may_be_empty);
                union.level = level;
                if is_discriminator {
                    union.discriminator = Some(field.name);
                } else {
                    let of = MemberOf::Field(field.name, self.shape(field.ty)?);
                    let value = argument(rule, "memberName");
                    union.members.push(Member { name: field.name.to_owned(), value, of });
                }
            }
        }
        if unions.iter().any(|union| union.discriminator.is_some() && union.members.iter().any(|m| m.value.is_empty()))
        {
            return Err("a member of a union with discriminator needs a memberName".to_owned());
        }
        unions.retain(|union| self.applies(union.level));
        unions.sort_by_key(|union| (union.may_be_empty, union.name));
        Ok(unions)
    }

    /// The unions of the items of a list.
    fn item_unions(&self, rules: &[Rule<'static>], place: Place<'_>) -> Result<Vec<Union>, String> {
        let mut unions: Vec<Union> = Vec::new();
        for (rule, level) in rules.iter().map(Self::of_level) {
            let ("item", RuleValue::Rule(inner)) = (rule.name, &rule.value) else { continue };
            let may_be_empty = match inner.name {
                "unionMember" => false,
                "zeroOrOneOfMember" => true,
                _ => continue,
            };
            let keys = named_arguments(rule.arguments);
            let shown: Vec<String> = keys.iter().map(|(key, value)| format!("\"{key}\": \"{value}\"")).collect();
            let name = format!("{}[{{{}}}]", place.name, shown.join(", "));
            let union = union_of(&mut unions, argument(inner, "union"), may_be_empty);
            union.level = level;
            union.members.push(Member { name, value: argument(inner, "memberName"), of: MemberOf::Item(keys) });
        }
        unions.retain(|union| self.applies(union.level));
        Ok(unions)
    }

    /// The fields that depend on whether another one is set.
    fn dependents(&mut self, fields: &[FieldRules<'static>]) -> Result<Vec<Check>, String> {
        let mut found = Vec::new();
        for field in fields {
            for (rule, level) in field.rules.iter().map(Self::of_level) {
                let is_required = match rule.name {
                    "dependentRequired" => true,
                    "dependentForbidden" => false,
                    _ => continue,
                };
                let other = fields.iter().find(|other| other.name == rule.arguments);
                // Only fields with rules of their own are listed. The others of upstream's tags are pointers or lists.
                let shape = other.map_or(Ok(Shape::Pointer), |other| self.shape(other.ty))?;
                if self.applies(level) {
                    let field = (field.name, self.shape(field.ty)?);
                    let dependent = Dependent { field, other: (rule.arguments, shape), is_required };
                    found.push(level.wrap(Check::Dependent(dependent)));
                }
            }
        }
        Ok(found)
    }

    /// The checks of fields that depend on a discriminator, sorted by the name of the field.
    fn discriminated(&mut self, fields: &[FieldRules<'static>]) -> Result<Vec<Check>, String> {
        let discriminator =
            fields.iter().find(|field| field.rules.iter().any(|rule| Self::of_level(rule).0.name == "discriminator"));
        let mut found = Vec::new();
        for field in fields {
            let shape = self.shape(field.ty)?;
            let list = self.list_facts(&field.rules)?;
            let place = Place { name: field.name, ty: field.ty, shape, list: &list };
            let mut cases: Vec<(&'static str, Cohort)> = Vec::new();
            let mut level = Level::Stable;
            for (rule, found) in field.rules.iter().map(Self::of_level) {
                let ("member", RuleValue::Rule(inner), true) = (rule.name, &rule.value, self.applies(found)) else {
                    continue;
                };
                level = found;
                let value = rule.arguments;
                for step in Self::compile_rule(inner, place)? {
                    match cases.iter_mut().find(|(known, _)| *known == value) {
                        Some((_, cohort)) => cohort.push(step.gate, step.check),
                        None => {
                            let mut cohort = Cohort::default();
                            cohort.push(step.gate, step.check);
                            cases.push((value, cohort));
                        }
                    }
                }
            }
            if !cases.is_empty() {
                let discriminator = discriminator.ok_or("a member without a discriminator")?.name;
                let check = Check::Discriminated(Discriminated { discriminator, field: field.name, shape, cases });
                found.push((field.name, level.wrap(check)));
            }
        }
        found.sort_by_key(|(name, _)| *name);
        Ok(found.into_iter().map(|(_, check)| check).collect())
    }
}

/// The subresources that a type supports.
fn supported_subresources(rules: &[Rule<'static>]) -> Vec<&'static str> {
    let subresource = |rule: &Rule<'static>| match (rule.name, &rule.value) {
        ("supportsSubresource", RuleValue::Text(path)) => Some(*path),
        _ => None,
    };
    rules.iter().filter_map(subresource).collect()
}

/// Drops fields and references that cannot lead to an error.
fn drop_silent(types: &mut [Type]) {
    let index = |next: &Next| match next {
        Next::Type(ty) | Next::Items { ty, .. } | Next::Values { ty, .. } => *ty,
    };
    let mut speaks = vec![false; types.len()];
    loop {
        let leads = |next: &Option<Next>| next.as_ref().is_some_and(|next| speaks.get(index(next)) == Some(&true));
        let field_speaks = |field: &Field| !field.steps.is_silent() || leads(&field.next);
        let type_speaks = |ty: &Type| !ty.steps.is_silent() || leads(&ty.next) || ty.fields.iter().any(field_speaks);
        let found: Vec<bool> = types.iter().map(type_speaks).collect();
        if found == speaks {
            break;
        }
        speaks = found;
    }
    let drop_next = |next: &mut Option<Next>| {
        if next.as_ref().is_some_and(|next| speaks.get(index(next)) != Some(&true)) {
            *next = None;
        }
    };
    for ty in types {
        drop_next(&mut ty.next);
        ty.fields.iter_mut().for_each(|field| drop_next(&mut field.next));
        ty.fields.retain(|field| !field.steps.is_silent() || field.next.is_some());
        if ty.steps.is_silent() && ty.next.is_none() && ty.fields.is_empty() {
            ty.steps = Steps::default();
        }
    }
}

/// A check with the detail of its rule, if there is one.
fn detailed(rule: &Rule<'static>, check: Check) -> Check {
    match rule.arguments.strip_prefix('"') {
        Some(detail) => Check::Detailed(detail, Box::new(check)),
        None => check,
    }
}

fn union_of<'u>(unions: &'u mut Vec<Union>, name: &'static str, may_be_empty: bool) -> &'u mut Union {
    let index = unions.iter().position(|union| union.name == name && union.may_be_empty == may_be_empty);
    let index = index.unwrap_or(unions.len());
    if index == unions.len() {
        unions.push(Union { name, may_be_empty, ..Union::default() });
    }
    &mut unions[index]
}
