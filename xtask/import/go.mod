// The modules that the importer reads are pinned in versions/, a file for each known version of Kubernetes.
module pintle.dev/xtask/import

go 1.26.0
