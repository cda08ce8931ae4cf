//! The configuration of flow control (API priority and fairness): the priority levels and flow schemas that every
//! cluster has, and the status of flow schemas. This configuration does not limit requests.

mod objects;
mod status;

pub use self::objects::FLOW_CONTROL_OBJECTS_TASK;
pub(crate) use self::objects::run as run_objects;
pub use self::status::FLOW_CONTROL_STATUS_TASK;
pub(crate) use self::status::run as run_status;
