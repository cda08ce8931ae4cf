package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/kms/pkg/service"
)

// plugin stands in for a KMS v2 plugin. The path of its endpoint is the ID of its key. The key changes each byte that it
// encrypts.
type plugin struct{ key string }

// connect makes the client of a plugin in another process.
var connect = encryptionconfig.EnvelopeKMSv2ServiceFactory

func init() {
	encryptionconfig.EnvelopeKMSv2ServiceFactory = func(_ context.Context, endpoint, _ string, _ time.Duration) (service.Service, error) {
		if scripted, found := scripts[endpoint]; found {
			return scripted, nil
		}
		return plugin{strings.TrimPrefix(endpoint, "unix:///")}, nil
	}
}

// scripts are plugins with given answers, by endpoint.
var scripts = map[string]service.Service{}

func mask(key string, data []byte) []byte {
	pad := sha256.Sum256([]byte(key))
	out := make([]byte, len(data))
	for i := range data {
		out[i] = data[i] ^ pad[i%len(pad)]
	}
	return out
}

func (p plugin) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: p.key}, nil
}

func (p plugin) Encrypt(_ context.Context, _ string, data []byte) (*service.EncryptResponse, error) {
	annotations := map[string][]byte{"key.example.com": []byte(p.key)}
	return &service.EncryptResponse{Ciphertext: mask(p.key, data), KeyID: p.key, Annotations: annotations}, nil
}

// Decrypt decrypts with any key, except with those that the name says are lost.
func (p plugin) Decrypt(_ context.Context, _ string, request *service.DecryptRequest) ([]byte, error) {
	if strings.HasPrefix(request.KeyID, "lost") {
		return nil, errors.New("the key is lost")
	}
	return mask(request.KeyID, request.Ciphertext), nil
}
