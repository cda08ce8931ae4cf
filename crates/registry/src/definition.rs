//! Where the definition of a custom kind is read from.

use pintle_value::Value;

/// The definition of a custom kind. What it says of its objects is larger than all that serving them takes, so it is not
/// kept beside the records but read when somebody asks for it.
pub trait DefinitionSource: Send + Sync {
    /// Tells the definition, as it is now, apart from all others and from itself before and after.
    fn mark(&self) -> &str;

    /// The schema of the objects of a version as it is written (`openAPIV3Schema`); `None` where there is none.
    fn schema(&self, version: &str) -> Option<Value>;
}
