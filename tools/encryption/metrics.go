package main

import (
	"context"
	"encoding/base64"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/metrics"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kms/pkg/service"
)

// metricsRow has the lines of metrics that a step changes or adds. Stored is the value that a step reads for a resource.
// Durations and times are shown as `*`, as are the numbers of durations in buckets.
type metricsRow struct {
	Step                      string
	Resource, Context, Stored string `json:",omitempty"`
	Lines                     []string
}

// metricsText is the configuration of the steps. SOCKET is the plugin's socket, AWAY a socket at which nobody listens.
var metricsText = configuration(
	entry("secrets", keys("aesgcm", key32, "key1", "key2")+", {identity: {}}"),
	entry("configmaps", "{kms: {apiVersion: v2, name: kms, endpoint: 'unix://SOCKET'}}"),
	entry("'*.apps'", "{identity: {}}, "+keys("aescbc", key16, "key1")+", {kms: {apiVersion: v2, name: away, endpoint: 'unix://AWAY', timeout: 100ms}}"),
)

var (
	ours     = regexp.MustCompile(`(?m)^(?:# (?:HELP|TYPE) )?apiserver_(?:storage_|envelope_encryption_|encryption_config_).*\n`)
	measured = regexp.MustCompile(`(?m)^([a-z_]+(?:_bucket|_sum|_timestamp_seconds)(?:\{[^}]*\})?) .*$`)
)

// exposition has the metrics of encryption at rest.
func exposition() string {
	recorder := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	text := strings.Join(ours.FindAllString(recorder.Body.String(), -1), "")
	return measured.ReplaceAllString(text, "$1 *")
}

// recordMetrics runs before anything else is recorded. `connect` makes the clients of plugins.
func recordMetrics() []metricsRow {
	fake := encryptionconfig.EnvelopeKMSv2ServiceFactory
	encryptionconfig.EnvelopeKMSv2ServiceFactory = connect
	defer func() { encryptionconfig.EnvelopeKMSv2ServiceFactory = fake }()
	folder, err := os.MkdirTemp("", "encryption")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	socket := filepath.Join(folder, "kms.sock")
	server := service.NewGRPCService(socket, 5*time.Second, plugin{"one"})
	go func() { _ = server.ListenAndServe() }()
	defer server.Shutdown()

	var rows []metricsRow
	known := map[string]bool{}
	add := func(row metricsRow) {
		row.Lines = []string{}
		lines := strings.Split(strings.TrimSuffix(exposition(), "\n"), "\n")
		for _, line := range lines {
			if !known[line] {
				row.Lines = append(row.Lines, line)
			}
		}
		known = map[string]bool{}
		for _, line := range lines {
			known[line] = true
		}
		rows = append(rows, row)
	}
	add(metricsRow{Step: "nothing"})
	name := filepath.Join(folder, file)
	text := strings.NewReplacer("SOCKET", socket, "AWAY", filepath.Join(folder, "away.sock")).Replace(metricsText)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	loaded, err := encryptionconfig.LoadEncryptionConfig(ctx, name, true, "server")
	if err != nil {
		panic(err)
	}
	metrics.RecordEncryptionConfigLastConfigInfo("server", "HASH")
	add(metricsRow{Step: "load"})
	transformers := encryptionconfig.StaticTransformers(loaded.Transformers)
	with := func(resource string) (value.Transformer, context.Context) {
		parsed := schema.ParseGroupResource(resource)
		info := &request.RequestInfo{APIGroup: parsed.Group, Resource: parsed.Resource}
		return transformers.TransformerForResource(parsed), request.WithRequestInfo(ctx, info)
	}
	write := func(resource string) []byte {
		transformer, ctx := with(resource)
		stored, err := transformer.TransformToStorage(ctx, pattern(40), value.DefaultContext(key))
		if err != nil {
			panic(err)
		}
		return stored
	}
	read := func(resource, context string, stored []byte) {
		transformer, ctx := with(resource)
		_, _, _ = transformer.TransformFromStorage(ctx, stored, value.DefaultContext(context))
		add(metricsRow{Step: "read", Resource: resource, Context: context, Stored: base64.StdEncoding.EncodeToString(stored)})
	}
	for _, resource := range []string{"secrets", "configmaps", "deployments.apps"} {
		stored := write(resource)
		transformer, ctx := with(resource)
		_, _, _ = transformer.TransformFromStorage(ctx, stored, value.DefaultContext(key))
		add(metricsRow{Step: "write and read", Resource: resource, Context: key})
	}
	secret := write("secrets")
	add(metricsRow{Step: "write", Resource: "secrets", Context: key})
	read("secrets", other, secret)
	read("secrets", key, []byte(strings.Replace(string(secret), "key1", "key2", 1)))
	read("secrets", key, []byte(strings.Replace(string(secret), "key1", "key3", 1)))
	read("secrets", key, pattern(40))
	read("secrets", key, []byte("k8s:enc:secretbox:v1:key1:x"))
	read("configmaps", key, pattern(40))
	read("configmaps", key, []byte("k8s:enc:kms:v2:kms:x"))
	read("deployments.apps", key, secret)
	read("statefulsets.apps", key, pattern(40))
	read("nodes", key, pattern(40))
	read("deployments.apps", key, []byte("k8s:enc:kms:v2:away:x"))
	// A plugin's key changes while its name stays.
	config := write("configmaps")
	add(metricsRow{Step: "write", Resource: "configmaps", Context: key})
	for _, id := range []string{"two", "lost"} {
		changed := changeKey(config, id)
		read("configmaps", key, changed)
		read("configmaps", key, changed)
	}
	read("configmaps", other, config)
	metrics.RecordEncryptionConfigAutomaticReloadSuccess("server", "HASH")
	add(metricsRow{Step: "reload"})
	metrics.RecordEncryptionConfigAutomaticReloadFailure("server")
	add(metricsRow{Step: "failed reload"})
	return rows
}
