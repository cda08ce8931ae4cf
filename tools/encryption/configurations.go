package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apiserver/pkg/storage/value"
)

const (
	head  = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"
	key16 = "AAECAwQFBgcICQoLDA0ODw=="
	key24 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
	key32 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// probed are the resources for which a valid configuration is tried.
var probed = []string{"secrets", "configmaps", "events", "events.events.k8s.io", "deployments.apps", "jobs.batch", "pandas.bears.example"}

// configurationRow is the content of a file, settings of the server, and the error. Without an error, Writes are the
// prefixes of the values that upstream writes, by resource.
type configurationRow struct {
	Text          string
	Reload, KMSv1 bool
	Error         string
	Writes        map[string]string `json:",omitempty"`
}

// prefix is the start of an encrypted value. No valid name of a key in the table has a colon.
var prefix = regexp.MustCompile(`^k8s:enc:[a-z]+:v[0-9]:[^:]*:`)

// entry is an entry of a configuration: its resources and its providers, as lists of YAML.
func entry(resources, providers string) string {
	return fmt.Sprintf("- resources: [%s]\n  providers: [%s]\n", resources, providers)
}

// keys is a provider with keys of this secret.
func keys(provider, secret string, names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("{name: %s, secret: %s}", name, secret))
	}
	return fmt.Sprintf("{%s: {keys: [%s]}}", provider, strings.Join(list, ", "))
}

func configuration(entries ...string) string {
	return head + "resources:\n" + strings.Join(entries, "")
}

func configurations() []configurationRow {
	var rows []configurationRow
	add := func(text string, reload, kmsV1 bool) {
		row := configurationRow{Text: text, Reload: reload, KMSv1: kmsV1}
		transformers, problem := load(text, reload, kmsV1)
		row.Error = problem
		for _, resource := range probed {
			if problem != "" || strings.Contains(text, "kms") && kmsV1 {
				continue
			}
			written, err := transformer(transformers, resource).TransformToStorage(context.Background(), []byte("value"), value.DefaultContext("key"))
			if err != nil {
				panic(err)
			}
			if row.Writes == nil {
				row.Writes = map[string]string{}
			}
			row.Writes[resource] = prefix.FindString(string(written))
		}
		rows = append(rows, row)
	}
	for _, text := range texts() {
		add(text, false, false)
	}
	providers := kmsProviders()
	for i, provider := range providers {
		text := configuration(entry("secrets", provider))
		add(text, false, false)
		if strings.Contains(provider, "v1") || i == 0 {
			add(text, false, true)
		}
	}
	for _, text := range kmsNames() {
		for _, reload := range []bool{false, true} {
			for _, kmsV1 := range []bool{false, true} {
				add(text, reload, kmsV1)
			}
		}
	}
	return rows
}

// texts are files without KMS plugins.
func texts() []string {
	identity, cbc, gcm := "{identity: {}}", keys("aescbc", key32, "key1"), keys("aesgcm", key16, "key1")
	box := keys("secretbox", key32, "key1")
	valid := entry("secrets", identity)
	texts := []string{
		// Other texts and kinds.
		"", " ", "\n", "{", "[", "x", "- a", "a: [", "{}", "null", "kind: EncryptionConfiguration", "apiVersion: apiserver.config.k8s.io/v1\n",
		"apiVersion: apiserver.config.k8s.io/v1\nresources: []\n",
		"kind: EncryptionConfiguration\nresources:\n" + entry("secrets", cbc),
		"apiVersion: apiserver.config.k8s.io/v1\nkind: encryptionConfiguration\nresources:\n" + valid,
		"apiVersion: apiserver.config.k8s.io/v1beta1\nkind: EncryptionConfiguration\nresources:\n" + valid,
		"apiVersion: apiserver.config.k8s.io/v2\nkind: EncryptionConfiguration\nresources:\n" + valid,
		"apiVersion: v1\nkind: EncryptionConfiguration\nresources:\n" + valid,
		"apiVersion: v1\nkind: EncryptionConfig\nresources:\n" + valid,
		"apiVersion: v1\nkind: EncryptionConfig\nresources: []\n",
		"apiVersion: /v1\nkind: EncryptionConfig\nresources:\n" + valid,
		"apiVersion: a/b/c\nkind: EncryptionConfiguration\nresources:\n" + valid,
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: EgressSelectorConfiguration\n",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: Secret\n",
		"apiVersion: 1\nkind: EncryptionConfiguration\n", "apiVersion: v1\nkind: 1\n", "apiVersion: v1\nkind: Secret\n",
		`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],"providers":[{"aescbc":{"keys":[{"name":"a","secret":"` + key32 + `"}]}},{"identity":{}}]}]}`,
		`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[]}`,
		`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[],"resources":[]}`,
		`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","Resources":[]}`,
		`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration",}`,
		// Unknown and duplicate fields, types.
		head, head + "resources: []\n", head + "resources: null\n", head + "resources: {}\n", head + "resources: [null]\n", head + "resources: [1]\n",
		head + "resources: [{}]\n", head + "resources: x\n", head + "resource: []\nresources:\n" + valid, head + "metadata: {name: a}\nresources:\n" + valid,
		head + "resources: [{resources: secrets, providers: [{identity: {}}]}]\n", head + "resources: [{resources: [1], providers: [{identity: {}}]}]\n",
		head + "resources: [{resources: [null], providers: [{identity: {}}]}]\n", head + "resources: [{resources: [secrets], providers: {}}]\n",
		head + "resources: [{resources: [secrets], providers: [null]}]\n", head + "resources: [{resources: [secrets], providers: [1]}]\n",
		head + "resources: [{resources: [secrets], provider: [{identity: {}}], providers: [{identity: {}}]}]\n",
		head + "resources: [{resources: [secrets], resources: [pods], providers: [{identity: {}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{identity: {a: 1}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{identity: []}]}]\n", head + "resources: [{resources: [secrets], providers: [{identity: null}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{identity: ''}]}]\n", head + "resources: [{resources: [secrets], providers: [{aes: {}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{aescbc: {keys: {}}}]}]\n", head + "resources: [{resources: [secrets], providers: [{aescbc: {keys: [a]}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{aescbc: {keys: [{name: 1, secret: 2}]}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{aescbc: {keys: [{name: a, secret: " + key16 + ", hash: b}]}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{aesgcm: {keys: [null]}}, {secretbox: {key: []}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{kms: {name: a, cacheSize: 1}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{kms: {name: a, cachesize: 1.5}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{kms: {name: a, cachesize: 3000000000}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{kms: {name: a, cachesize: '1'}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{kms: {name: a, timeout: 3}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{kms: {name: a, timeout: x}}]}]\n",
		head + "resources: [{resources: [secrets], providers: [{kms: {name: a, timeout: ''}}]}]\n",
		// Providers.
		head + "resources: [{resources: [secrets]}]\n", head + "resources: [{providers: [{identity: {}}]}]\n",
		configuration(entry("secrets", "")), configuration(entry("", identity)), configuration(entry("", "")), configuration(entry("secrets", "{}")),
		configuration(entry("secrets", "{identity: {}, aescbc: {}}")), configuration(entry("secrets", "{aesgcm: {keys: []}, aescbc: {keys: [{name: a}]}}")),
		configuration(entry("secrets", "{aesgcm: {keys: [{name: a<b>&, secret: ''}]}, secretbox: {keys: [{secret: x}, null]}, kms: {name: k, endpoint: unix:///a, timeout: 1h}}")),
		configuration(entry("secrets", "{identity: {}, kms: {apiVersion: v2, name: k, endpoint: unix:///a}}")),
		configuration(entry("secrets", "{secretbox: {}, identity: {}}, {}, {aescbc: {}}")), configuration(entry("secrets", "{aescbc: {}}, {aesgcm: {}}, {secretbox: {}}")),
		configuration(entry("secrets", cbc)), configuration(entry("secrets", gcm)), configuration(entry("secrets", box)),
		configuration(entry("secrets", cbc+", "+identity)), configuration(entry("secrets", identity+", "+cbc)), configuration(entry("secrets", strings.Join([]string{gcm, cbc, box, identity}, ", "))),
		configuration(entry("secrets", cbc+", "+cbc)), configuration(entry("secrets", identity+", "+identity)), configuration(entry("secrets", keys("aescbc", key32, "a", "b", "a"))),
		// Keys.
		configuration(entry("secrets", "{aescbc: {keys: [{}]}}")), configuration(entry("secrets", "{aescbc: {keys: [{name: a}, {secret: "+key32+"}, {name: '', secret: ''}]}}")),
		configuration(entry("secrets", "{secretbox: {keys: [{name: a, secret: b}, {name: c, secret: '===='}, {name: d, secret: AAA}, {name: e, secret: AA==}]}}")),
		configuration(entry("secrets", "{aesgcm: {keys: [{name: a, secret: \"AAECAwQFBgcI\\nCQoLDA0ODw==\"}, {name: b, secret: ' "+key16+"'}]}}")),
		configuration(entry("secrets", "{aesgcm: {keys: [{name: a, secret: \"AAECAwQFBgcI\\nCQoLDA0ODw==\\r\\n\"}]}}")),
		configuration(entry("secrets", "{aesgcm: {keys: [{name: a, secret: AAECAwQFBgcICQoLDA0ODw}, {name: b, secret: '-_-_'}, {name: c, secret: AAECAwQFBgcICQoLDA0ODx==}]}}")),
		configuration(entry("secrets", "{aesgcm: {keys: [{name: ' ', secret: "+key16+"}]}}")), configuration(entry("secrets", "{aesgcm: {keys: [{name: \"é\", secret: "+key16+"}]}}")),
		// Resources.
		configuration(entry("'*'", identity)), configuration(entry("'*', '*.*'", identity)), configuration(entry("'*.*'", cbc)), configuration(entry("'*.'", cbc)), configuration(entry("'*.apps'", cbc)),
		configuration(entry("secrets, configmaps", cbc)), configuration(entry("secrets, secrets", cbc)), configuration(entry("secrets, secrets, secrets", cbc)), configuration(entry("secrets, 'secrets.'", cbc)),
		configuration(entry("secrets, '*.'", cbc)), configuration(entry("'*.', secrets", cbc)), configuration(entry("'*.', '*.'", cbc)), configuration(entry("'*.*', '*.*'", cbc)), configuration(entry("'*.*', secrets", cbc)),
		configuration(entry("secrets, '*.*'", cbc)), configuration(entry("deployments.apps, '*.apps'", cbc)), configuration(entry("deployments.apps, '*.batch'", cbc)), configuration(entry("'*.apps', '*.batch'", cbc)),
		configuration(entry("'*.apps', '*.apps', deployments.apps", cbc)), configuration(entry("a, b, a, '*.*', b", cbc)), configuration(entry("Secrets", cbc)), configuration(entry("secrets, CONFIGMAPS.Apps", cbc)),
		configuration(entry("apiserveripinfo", cbc)), configuration(entry("serviceipallocations, servicenodeportallocations, serviceipallocations.x", cbc)), configuration(entry("events.events.k8s.io", cbc)),
		configuration(entry("'*.events.k8s.io'", cbc)), configuration(entry("events", cbc)), configuration(entry("'*.extensions', ingresses.extensions", cbc)), configuration(entry("ingresses.networking.k8s.io", cbc)),
		configuration(entry("'secrets.*', 'a.*.b', '*.*.*'", cbc)), configuration(entry("''", cbc)), configuration(entry("'.'", cbc)), configuration(entry("'.apps', 'a b', 'é', 'É'", cbc)), configuration(entry("pandas.bears.example", cbc)),
		configuration(entry("'pods/status'", cbc)), configuration(entry("'***', '*x', 'x*'", cbc)),
		// Several entries.
		configuration(entry("secrets", cbc), entry("secrets", identity)), configuration(entry("secrets", identity), entry("secrets", cbc)), configuration(entry("secrets", cbc), entry("configmaps", gcm), entry("'*.*'", box)),
		configuration(entry("'*.'", cbc), entry("secrets", identity)), configuration(entry("'*.*'", cbc), entry("secrets", identity)), configuration(entry("'*.*'", cbc), entry("'*.'", identity)),
		configuration(entry("'*.*'", cbc), entry("'*.*'", identity)), configuration(entry("'*.apps'", cbc), entry("deployments.apps", identity)), configuration(entry("'*.apps'", cbc), entry("'*.apps'", gcm)),
		configuration(entry("deployments.apps", cbc), entry("'*.apps'", gcm), entry("'*.*'", identity)), configuration(entry("'*.apps'", cbc), entry("'*.'", gcm), entry("'*.*'", box)),
		configuration(entry("'*.apps'", cbc), entry("jobs.batch, deployments.apps", gcm)), configuration(entry("'*.apps'", cbc), entry("'*.*'", gcm), entry("deployments.apps", box)), configuration(entry("events", identity), entry("'*.'", gcm), entry("'*.apps', secrets", box)),
		configuration(entry("events", identity), entry("secrets, configmaps, pandas.bears.example", cbc), entry("'*.apps'", gcm), entry("'*.*'", box)),
		configuration(entry("secrets", "{}"), entry("Secrets, '*'", "{aescbc: {keys: [{name: a, secret: b}]}}"), entry("", "")),
		configuration(entry("secrets", "{}"), entry("secrets", "{}")),
	}
	// Keys of all lengths.
	for length := 0; length <= 33; length++ {
		if length%8 > 1 && length != 15 && length != 31 {
			continue
		}
		secret := encode(pattern(length))
		texts = append(texts, configuration(entry("secrets", strings.Join([]string{keys("aescbc", secret, "a"), keys("aesgcm", secret, "a"), keys("secretbox", secret, "a")}, ", "))))
	}
	return texts
}

// kmsProviders are KMS plugins of both versions.
func kmsProviders() []string {
	var list []string
	for _, fields := range []string{
		"name: k, endpoint: unix:///a", "apiVersion: '', name: k, endpoint: unix:///a", "apiVersion: v1, name: k, endpoint: unix:///a", "apiVersion: v2, name: k, endpoint: unix:///a",
		"apiVersion: v3, name: k, endpoint: unix:///a", "apiVersion: V1, name: k, endpoint: unix:///a, cachesize: 5", "apiVersion: v2beta1, name: k, endpoint: unix:///a, cachesize: 0",
		"apiVersion: v1, name: k, endpoint: unix:///a, cachesize: 0", "apiVersion: v1, name: k, endpoint: unix:///a, cachesize: -1", "apiVersion: v1, name: k, endpoint: unix:///a, cachesize: null",
		"apiVersion: v2, name: k, endpoint: unix:///a, cachesize: 10", "apiVersion: v2, name: k, endpoint: unix:///a, cachesize: null", "apiVersion: v2, name: k, endpoint: unix:///a, timeout: 0s",
		"apiVersion: v2, name: k, endpoint: unix:///a, timeout: -1h1.5s", "apiVersion: v1, name: k, endpoint: unix:///a, timeout: 0", "apiVersion: v2, name: k, endpoint: unix:///a, timeout: 1m",
		"apiVersion: v2, name: k, endpoint: unix:///a, timeout: null", "apiVersion: v2, name: '', endpoint: ''", "apiVersion: v2", "", "apiVersion: v1", "apiVersion: v2, name: 'a:b', endpoint: unix:///a",
		"apiVersion: v1, name: 'a:b', endpoint: unix:///a", "apiVersion: v2, name: k, endpoint: http://a", "apiVersion: v2, name: k, endpoint: /a", "apiVersion: v2, name: k, endpoint: a",
		"apiVersion: v2, name: k, endpoint: 'unix:a'", "apiVersion: v2, name: k, endpoint: 'UNIX:///a'", "apiVersion: v2, name: k, endpoint: 'unix:///%zz'", "apiVersion: v2, name: k, endpoint: ':'",
		"apiVersion: v2, name: k, endpoint: \"unix:///a\\x7f\"", "apiVersion: v2, name: k, endpoint: 'unix://[::1'", "apiVersion: v2, name: k, endpoint: 'unix:///@a'", "apiVersion: v2, name: k, endpoint: 'unix://host/a?b#c'",
		"apiVersion: v9, name: 'a:b', endpoint: 'tcp://x', cachesize: 4, timeout: -1ns",
	} {
		list = append(list, "{kms: {"+fields+"}}")
	}
	return list
}

// kmsNames are files with several KMS plugins.
func kmsNames() []string {
	kms := func(version, name string) string {
		return fmt.Sprintf("{kms: {apiVersion: %s, name: %s, endpoint: unix:///a}}", version, name)
	}
	return []string{
		configuration(entry("secrets", kms("v2", "a")+", "+kms("v2", "b"))), configuration(entry("secrets", kms("v2", "a")+", "+kms("v2", "a"))), configuration(entry("secrets", kms("v1", "a")+", "+kms("v1", "a"))),
		configuration(entry("secrets", kms("v1", "a")+", "+kms("v2", "a"))), configuration(entry("secrets", kms("v2", "a")+", "+kms("v1", "a"))), configuration(entry("secrets", kms("v1", "a")+", "+kms("v2", "b"))),
		configuration(entry("secrets", kms("v2", "a")), entry("configmaps", kms("v2", "a"))), configuration(entry("secrets", kms("v1", "a")), entry("configmaps", kms("v1", "a"))),
		configuration(entry("'*.*'", kms("v2", "a")), entry("configmaps", kms("v1", "b"))), configuration(entry("'*.*'", kms("v1", "a")), entry("configmaps", kms("v2", "b"))),
	}
}
