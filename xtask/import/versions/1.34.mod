module pintle.dev/xtask/import

go 1.26.0

require (
	k8s.io/api v0.34.13
	k8s.io/apiextensions-apiserver v0.34.13
	k8s.io/apimachinery v0.34.13
	k8s.io/client-go v0.34.13
	k8s.io/kube-aggregator v0.34.13
)
