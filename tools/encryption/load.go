package main

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// file is the name that errors show.
const file = "encryption.yaml"

// scheme is the name of the scheme in kube-apiserver.
const scheme = `"k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go:142"`

// load makes the transformers of a configuration.
func load(text string, reload, kmsV1 bool) (encryptionconfig.StaticTransformers, string) {
	folder, err := os.MkdirTemp("", "encryption")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
		panic(err)
	}
	if err := os.Chdir(folder); err != nil {
		panic(err)
	}
	gates := map[string]bool{"KMSv1": kmsV1}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		panic(err)
	}
	configuration, err := encryptionconfig.LoadEncryptionConfig(context.Background(), file, reload, "server")
	if err != nil {
		// The name of a scheme is the place of its creation. In a build with modules, the search for it ends too early.
		text := strings.Replace(err.Error(), `"pkg/runtime/scheme.go:111"`, scheme, 1)
		return nil, text
	}
	return configuration.Transformers, ""
}

// transformer is the transformer of a resource, such as `secrets` or `deployments.apps`.
func transformer(transformers encryptionconfig.StaticTransformers, resource string) value.Transformer {
	return transformers.TransformerForResource(schema.ParseGroupResource(resource))
}

// problem is the text of an error. The Protobuf library writes a space in one of two ways, so that nobody relies on it.
func problem(err error) string { return strings.ReplaceAll(err.Error(), "\u00a0", " ") }

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// pattern is the value of a length.
func pattern(length int) []byte {
	out := make([]byte, length)
	for i := range out {
		out[i] = byte(i*31 + length + i>>8)
	}
	return out
}
