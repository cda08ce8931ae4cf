//! Tables of the group `storage.k8s.io`.

use pintle_registry::Column;
use pintle_value::Value;
use pintle_value::time::{Time, age};

use super::{StaticTable, cells, row};

pub(super) fn table(plural: &str) -> Option<StaticTable> {
    Some(match plural {
        "storageclasses" => STORAGE_CLASSES,
        "volumeattachments" => VOLUME_ATTACHMENTS,
        "csinodes" => CSI_NODES,
        "csidrivers" => CSI_DRIVERS,
        "volumeattributesclasses" => VOLUME_ATTRIBUTES_CLASSES,
        _ => return None,
    })
}

const STORAGE_CLASSES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Provisioner", "=storage/v1.StorageClass.provisioner"),
        Column::string("ReclaimPolicy", "=storage/v1.StorageClass.reclaimPolicy"),
        Column::string("VolumeBindingMode", "=storage/v1.StorageClass.volumeBindingMode"),
        Column::string("AllowVolumeExpansion", "=storage/v1.StorageClass.allowVolumeExpansion"),
        Column::AGE,
    ],
    cells: |o, now| {
        let default =
            ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
                .iter()
                .any(|key| o.annotation(key) == Some("true"));
        row![
            format!("{}{}", o.name(), if default { " (default)" } else { "" }),
            o.str_at(&["provisioner"]),
            cells::string_or(o, &["reclaimPolicy"], "Delete"),
            cells::string_or(o, &["volumeBindingMode"], "Immediate"),
            o.bool_at(&["allowVolumeExpansion"]),
            age(o, now),
        ]
    },
};

const VOLUME_ATTACHMENTS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        // Upstream gives this column the format `name` too.
        Column::new("Attacher", "string", "name", "=storage/v1.VolumeAttachmentSpec.attacher"),
        Column::string("PV", "=storage/v1.VolumeAttachmentSource.persistentVolumeName"),
        Column::string("Node", "=storage/v1.VolumeAttachmentSpec.nodeName"),
        Column::boolean("Attached", "=storage/v1.VolumeAttachmentStatus.attached"),
        Column::AGE,
    ],
    cells: |o, now| {
        row![
            o.name(),
            o.str_at(&["spec", "attacher"]),
            o.str_at(&["spec", "source", "persistentVolumeName"]),
            o.str_at(&["spec", "nodeName"]),
            o.bool_at(&["status", "attached"]),
            age(o, now),
        ]
    },
};

const CSI_NODES: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::integer("Drivers", "How many CSI drivers the node has."), Column::AGE],
    cells: |o, now| row![o.name(), cells::count(o, &["spec", "drivers"]), age(o, now)],
};

const CSI_DRIVERS: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::boolean("AttachRequired", "=storage/v1.CSIDriverSpec.attachRequired"),
        Column::boolean("PodInfoOnMount", "=storage/v1.CSIDriverSpec.podInfoOnMount"),
        Column::boolean("StorageCapacity", "=storage/v1.CSIDriverSpec.storageCapacity"),
        Column::string("TokenRequests", "=storage/v1.CSIDriverSpec.tokenRequests"),
        Column::boolean("RequiresRepublish", "=storage/v1.CSIDriverSpec.requiresRepublish"),
        Column::string("Modes", "=storage/v1.CSIDriverSpec.volumeLifecycleModes"),
        Column::AGE,
    ],
    cells: csi_driver,
};

fn csi_driver(o: &Value, now: Time) -> Vec<Value> {
    let spec = |field: &str| o.bool_at(&["spec", field]);
    let attach = o.at(&["spec", "attachRequired"]).and_then(Value::as_bool).unwrap_or(true);
    let tokens = match o.at(&["spec", "tokenRequests"]) {
        Some(_) => {
            let requests = o.items_at(&["spec", "tokenRequests"]).iter();
            requests.map(|t| t.str_at(&["audience"])).collect::<Vec<_>>().join(",")
        }
        None => "<unset>".to_owned(),
    };
    row![
        o.name(),
        attach,
        spec("podInfoOnMount"),
        spec("storageCapacity"),
        tokens,
        spec("requiresRepublish"),
        cells::or_placeholder(&cells::strings(o, &["spec", "volumeLifecycleModes"]).join(","), "<none>"),
        age(o, now),
    ]
}

const VOLUME_ATTRIBUTES_CLASSES: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::string("DriverName", "=storage/v1.VolumeAttributesClass.driverName"), Column::AGE],
    cells: |o, now| row![o.name(), o.str_at(&["driverName"]), age(o, now)],
};
