//! Objects at versions that are not served any more.

pub(crate) const SAMPLES: [(&str, &str, &str); 13] = [
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", r#"{"webhooks":[{"name":"a"}]}"#),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        r#"{"spec":{"version":"v1","validation":{},"subresources":{},"additionalPrinterColumns":[{"JSONPath":".a"}],
            "versions":[{"name":"v1","additionalPrinterColumns":[{"JSONPath":".a"}]}],
            "conversion":{"strategy":"Webhook","webhookClientConfig":{},"conversionReviewVersions":[]}}}"#,
    ),
    (
        "apps",
        "daemonsets",
        r#"{"spec":{"template":{"metadata":{"labels":{"a":"b"}}},"templateGeneration":1,"updateStrategy":{"type":""}}}"#,
    ),
    (
        "apps",
        "deployments",
        r#"{"metadata":{"labels":{},"annotations":{"deprecated.deployment.rollback.to":"1"}},
            "spec":{"template":{"metadata":{"labels":{"a":"b"}}},"rollbackTo":{"revision":1},
            "strategy":{"type":"","rollingUpdate":{}}}}"#,
    ),
    ("apps", "statefulsets", r#"{"spec":{"template":{"metadata":{"labels":{"a":"b"}}},"updateStrategy":{"type":""}}}"#),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        r#"{"spec":{"request":"LS0tLS1CRUdJTg==","usages":["any"],"signerName":null},"status":{"conditions":[{"status":""}]}}"#,
    ),
    (
        "discovery.k8s.io",
        "endpointslices",
        r#"{"endpoints":[{"nodeName":"n","topology":{"kubernetes.io/hostname":"h","topology.kubernetes.io/zone":"z"}}]}"#,
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        r#"{"metadata":{"annotations":{}},"spec":{"limited":{"assuredConcurrencyShares":0,"nominalConcurrencyShares":0}}}"#,
    ),
    (
        "networking.k8s.io",
        "ingresses",
        r#"{"spec":{"backend":{"serviceName":"s","servicePort":1},
            "rules":[{"http":{"paths":[{"backend":{"serviceName":"s","servicePort":"p"}}]}}]}}"#,
    ),
    ("node.k8s.io", "runtimeclasses", r#"{"spec":{"runtimeHandler":"h","overhead":{},"scheduling":{}}}"#),
    (
        "policy",
        "poddisruptionbudgets",
        r#"{"spec":{"selector":{"matchLabels":{},"matchExpressions":[
            {"key":"pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match","operator":"DoesNotExist"}]}}}"#,
    ),
    (
        "rbac.authorization.k8s.io",
        "rolebindings",
        r#"{"subjects":[{"kind":"User","name":"*"},{"kind":"K","apiVersion":"a/b"}]}"#,
    ),
    (
        "networking.k8s.io",
        "networkpolicies",
        r#"{"spec":{"ingress":[{"ports":[{"port":80}]}],"egress":[{}],"policyTypes":[]}}"#,
    ),
];
