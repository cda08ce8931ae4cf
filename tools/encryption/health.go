package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/kms/pkg/service"
)

// healthRow is a configuration with its health checks. The path of a plugin's endpoint is the ID of its key, or `bad` if
// the plugin is not healthy. Checks are the names, and Errors the results, empty for a success.
type healthRow struct {
	Text           string
	Reload         bool
	Checks, Errors []string
}

type unhealthy struct{ plugin }

func (unhealthy) Status(context.Context) (*service.StatusResponse, error) {
	return nil, errors.New("rpc error: code = DeadlineExceeded desc = context deadline exceeded")
}

func healthChecks() []healthRow {
	scripts["unix:///bad"] = unhealthy{}
	defer delete(scripts, "unix:///bad")
	texts := []string{
		configuration(entry("secrets", keys("aesgcm", key32, "key1"))),
		configuration(entry("secrets", kmsPlugin("kms", "one"))),
		configuration(entry("secrets", kmsPlugin("kms", "bad"))),
		configuration(entry("secrets", kmsPlugin("a", "one")+", "+kmsPlugin("b", "bad")), entry("configmaps", kmsPlugin("c", "one"))),
		configuration(entry("secrets", kmsPlugin("a", "bad")+", "+kmsPlugin("b", "one")), entry("configmaps", kmsPlugin("c", "bad"))),
	}
	var rows []healthRow
	for _, text := range texts {
		for _, reload := range []bool{false, true} {
			folder, err := os.MkdirTemp("", "encryption")
			if err != nil {
				panic(err)
			}
			name := filepath.Join(folder, file)
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				panic(err)
			}
			loaded, err := encryptionconfig.LoadEncryptionConfig(context.Background(), name, reload, "server")
			if err != nil {
				panic(err)
			}
			_ = os.RemoveAll(folder)
			row := healthRow{Text: text, Reload: reload, Checks: []string{}, Errors: []string{}}
			for _, check := range loaded.HealthChecks {
				problem := ""
				if err := check.Check(&http.Request{}); err != nil {
					problem = err.Error()
				}
				row.Checks, row.Errors = append(row.Checks, check.Name()), append(row.Errors, problem)
			}
			rows = append(rows, row)
		}
	}
	return rows
}
