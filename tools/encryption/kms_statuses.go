package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/kms/pkg/service"
)

// statusRow has the answers of a plugin to the calls Status and Encrypt, and the error of the provider's health check.
// StatusError and EncryptError are errors of the calls. The health check shows the random UID of a DEK as `UID`.
type statusRow struct {
	Version, Healthz, KeyID, StatusError   string
	EncryptKeyID, Annotation, EncryptError string
	Length                                 int
	Error                                  string
}

var uid = regexp.MustCompile(`uid="[^"]*"`)

func (r *statusRow) Status(context.Context) (*service.StatusResponse, error) {
	if r.StatusError != "" {
		return nil, errors.New(r.StatusError)
	}
	return &service.StatusResponse{Version: r.Version, Healthz: r.Healthz, KeyID: r.KeyID}, nil
}

func (r *statusRow) Encrypt(context.Context, string, []byte) (*service.EncryptResponse, error) {
	if r.EncryptError != "" {
		return nil, errors.New(r.EncryptError)
	}
	annotations := map[string][]byte{}
	if r.Annotation != "" {
		annotations[r.Annotation] = []byte("x")
	}
	return &service.EncryptResponse{Ciphertext: make([]byte, r.Length), KeyID: r.EncryptKeyID, Annotations: annotations}, nil
}

func (r *statusRow) Decrypt(context.Context, string, *service.DecryptRequest) ([]byte, error) {
	panic("nothing is decrypted")
}

func kmsStatuses() []statusRow {
	long := strings.Repeat("k", 1025)
	rows := []statusRow{
		{Version: "v2", Healthz: "ok", KeyID: "a", EncryptKeyID: "a", Length: 1},
		{Version: "v2beta1", Healthz: "ok", KeyID: "a", EncryptKeyID: "a", Length: 1024, Annotation: "a.b"},
		{Version: "v2", Healthz: "ok", KeyID: long[1:], EncryptKeyID: long[1:], Length: 1},
		{StatusError: "rpc error: code = DeadlineExceeded desc = context deadline exceeded"},
		{Version: "v2", Healthz: "no", KeyID: "a", EncryptKeyID: "a", Length: 1},
		{Version: "v2", KeyID: "a", EncryptKeyID: "a", Length: 1},
		{Version: "v1beta1", Healthz: "ok", KeyID: "a", EncryptKeyID: "a", Length: 1},
		{Healthz: "ok", KeyID: "a", EncryptKeyID: "a", Length: 1},
		{Version: "v2", Healthz: "ok", EncryptKeyID: "a", Length: 1},
		{Version: "v2", Healthz: "ok", KeyID: long, EncryptKeyID: long, Length: 1},
		{Version: "v2", Healthz: "ok", KeyID: "a", EncryptKeyID: "b", Length: 1},
		{Version: "v2", Healthz: "ok", KeyID: "a", EncryptKeyID: "", Length: 1},
		{Version: "v2", Healthz: "ok", KeyID: "a", EncryptKeyID: long, Length: 1},
		{Version: "v2", Healthz: "ok", KeyID: "a", EncryptKeyID: "a"},
		{Version: "v2", Healthz: "ok", KeyID: "a", EncryptKeyID: "a", Length: 1025},
		{Version: "v2", Healthz: "ok", KeyID: "a", EncryptKeyID: "a", Length: 1, Annotation: "a"},
		{Version: "v2", Healthz: "ok", KeyID: "a", EncryptError: "no key"},
		{Version: "v3", Healthz: "bad", KeyID: "a", EncryptError: "no key"},
		{Version: "v3", Healthz: "bad", KeyID: ""},
		{},
	}
	for i := range rows {
		scripts["unix:///script"] = &rows[i]
		folder, err := os.MkdirTemp("", "encryption")
		if err != nil {
			panic(err)
		}
		name := filepath.Join(folder, file)
		if err := os.WriteFile(name, []byte(configuration(entry("secrets", kmsPlugin("kms", "script")))), 0o600); err != nil {
			panic(err)
		}
		loaded, err := encryptionconfig.LoadEncryptionConfig(context.Background(), name, false, "server")
		if err != nil {
			panic(err)
		}
		_ = os.RemoveAll(folder)
		if err := loaded.HealthChecks[0].Check(&http.Request{}); err != nil {
			rows[i].Error = uid.ReplaceAllString(strings.TrimPrefix(err.Error(), "kms-provider-0: "), `uid="UID"`)
		}
	}
	return rows
}
