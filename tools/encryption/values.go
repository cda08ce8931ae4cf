package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
)

// providersRow is a configuration with a name.
type providersRow struct {
	Name, Text string
}

// valueRow is a stored value, and the result of reading it with the transformer of a resource. Without an error, the value is the
// pattern of a length or, if the length is -1, Value.
type valueRow struct {
	Configuration, Resource, Context string
	Stored                           []byte
	Length                           int
	Value                            []byte `json:",omitempty"`
	Stale                            bool   `json:",omitempty"`
	Error                            string `json:",omitempty"`
}

// sizes are lengths of values at the borders of blocks and of parallel blocks.
var sizes = []int{0, 1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 128, 129, 257}

var providers = []providersRow{
	{"cbc16", configuration(entry("secrets", keys("aescbc", key16, "key1")))},
	{"cbc24", configuration(entry("secrets", keys("aescbc", key24, "key1")))},
	{"cbc32", configuration(entry("secrets", keys("aescbc", key32, "key1")))},
	{"gcm16", configuration(entry("secrets", keys("aesgcm", key16, "key1")))},
	{"gcm24", configuration(entry("secrets", keys("aesgcm", key24, "key1")))},
	{"gcm32", configuration(entry("secrets", keys("aesgcm", key32, "key1")))},
	{"secretbox", configuration(entry("secrets", keys("secretbox", key32, "key1")))},
	{"identity", configuration(entry("secrets", "{identity: {}}"))},
	// The first key or provider is not the one that has written.
	{"cbc-rotated", configuration(entry("secrets", keys("aescbc", key32, "key2")+", "+keys("aescbc", key16, "key1", "key0")+", "+keys("aescbc", key32, "key1")))},
	{"gcm-rotated", configuration(entry("secrets", keys("aesgcm", key16, "key2")+", "+keys("aesgcm", key32, "key0", "key1")+", "+keys("aesgcm", key16, "key1")))},
	{"gcm-keys", configuration(entry("secrets", "{aesgcm: {keys: [{name: key2, secret: "+key24+"}, {name: key1, secret: "+key16+"}, {name: key1, secret: "+key24+"}]}}"))},
	{"colons", configuration(entry("secrets", "{aesgcm: {keys: [{name: 'key1:a', secret: "+key16+"}, {name: key1, secret: "+key16+"}, {name: 'key1:a:b', secret: "+key32+"}]}}"))},
	{"all", configuration(entry("secrets", strings.Join([]string{keys("secretbox", key32, "key1"), keys("aesgcm", key32, "key1"), keys("aescbc", key32, "key1"), "{identity: {}}"}, ", ")))},
	{"identity-first", configuration(entry("secrets", strings.Join([]string{"{identity: {}}", keys("aescbc", key32, "key1"), keys("secretbox", key32, "key1")}, ", ")))},
	{"wildcards", configuration(entry("secrets", "{identity: {}}, "+keys("aesgcm", key32, "key1")), entry("'*.'", keys("aesgcm", key32, "key1")), entry("'*.apps'", keys("aescbc", key32, "key1")), entry("'*.*'", keys("secretbox", key32, "key1")))},
	{"group-only", configuration(entry("'*.apps'", keys("aesgcm", key32, "key1")))},
}

// recorder makes rows with the transformers of configurations.
type recorder struct {
	loaded map[string]encryptionconfig.StaticTransformers
	rows   []valueRow
}

func newRecorder(providers []providersRow) *recorder {
	recorder := &recorder{loaded: map[string]encryptionconfig.StaticTransformers{}}
	for _, row := range providers {
		transformers, problem := load(row.Text, false, false)
		if problem != "" {
			panic(row.Name + ": " + problem)
		}
		recorder.loaded[row.Name] = transformers
	}
	return recorder
}

// add reads a stored value. If upstream reads the pattern of the length, the row has no value.
func (r *recorder) add(configuration, resource, key string, stored []byte, length int) {
	row := valueRow{Configuration: configuration, Resource: resource, Context: key, Stored: stored, Length: -1}
	transformer := transformer(r.loaded[configuration], resource)
	got, stale, err := transformer.TransformFromStorage(context.Background(), stored, value.DefaultContext(key))
	switch {
	case err != nil:
		row.Error = problem(err)
	case string(got) == string(pattern(length)):
		row.Length = length
	default:
		row.Value = got
	}
	row.Stale = stale
	r.rows = append(r.rows, row)
}

func (r *recorder) written(configuration, resource, key string, length int) []byte {
	transformer := transformer(r.loaded[configuration], resource)
	stored, err := transformer.TransformToStorage(context.Background(), pattern(length), value.DefaultContext(key))
	if err != nil {
		panic(err)
	}
	return stored
}

const key, other = "/registry/secrets/shop/password", "/registry/secrets/shop/other"

// values are stored values of providers with keys in the configuration.
func values() []valueRow {
	r := newRecorder(providers)
	for _, provider := range providers[:8] {
		name := provider.Name
		for _, size := range sizes {
			at := key
			if size%2 == 1 {
				at = fmt.Sprintf("/registry/secrets/ns/%d", size)
			}
			r.add(name, "secrets", at, r.written(name, "secrets", at, size), size)
		}
	}
	for _, name := range []string{"cbc32", "gcm24", "secretbox"} {
		r.add(name, "secrets", key, r.written(name, "secrets", key, 1500), 1500)
	}
	// Each configuration reads the values of each other one, under the same key and another one.
	for _, writer := range providers {
		for _, resource := range []string{"secrets", "configmaps", "deployments.apps", "jobs.batch"} {
			if resource != "secrets" && writer.Name != "wildcards" {
				continue
			}
			stored := r.written(writer.Name, resource, key, 20)
			for _, reader := range providers {
				readers := []string{"secrets"}
				if writer.Name == "wildcards" && strings.HasPrefix(reader.Name, "wild") || reader.Name == "group-only" {
					readers = []string{"secrets", "configmaps", "deployments.apps", "jobs.batch"}
				}
				for _, resource := range readers {
					r.add(reader.Name, resource, key, stored, 20)
				}
			}
			if resource == "secrets" {
				r.add(writer.Name, "secrets", other, stored, 20)
			}
		}
	}
	// Values that are cut, changed, or without their prefix. An empty ciphertext of AES-CBC is left out: Go panics.
	for _, name := range []string{"cbc32", "gcm24", "secretbox"} {
		stored := r.written(name, "secrets", key, 40)
		start := strings.Index(string(stored), "key1:") + len("key1:")
		for length := 0; length < len(stored); length++ {
			if length > start+2 && length%7 != 0 && length != start+16 || strings.HasPrefix(name, "cbc") && length == start+16 {
				continue
			}
			r.add(name, "secrets", key, stored[:length], 40)
		}
		for at := 0; at < len(stored); at += 5 {
			changed := append([]byte{}, stored...)
			changed[at] ^= 1 << (at % 8)
			r.add(name, "secrets", key, changed, 40)
		}
		r.add(name, "secrets", key, stored[start:], 40)
		r.add(name, "secrets", key, append(append([]byte{}, stored...), 0), 40)
		r.add(name, "secrets", key, append([]byte("k8s:enc:"), stored[start:]...), 40)
	}
	// The last byte of the second to last block decides about the padding of AES-CBC.
	stored := r.written("cbc32", "secrets", key, 40)
	for change := 1; change < 48; change++ {
		changed := append([]byte{}, stored...)
		changed[len(changed)-17] ^= byte(change)
		r.add("cbc32", "secrets", key, changed, 40)
	}
	for _, text := range []string{"", "k", "k8s:enc:", "k8s:enc", "k8s\x00", "{}", "k8s:enc:aescbc:v1:", "k8s:enc:aescbc:v1:key1", "k8s:enc:aescbc:v1:key1:", "k8s:enc:aescbc:v2:key1:", "k8s:enc:kms:v1:kms:", "k8s:enc:secretbox:v1:key9:", " k8s:enc:"} {
		for _, provider := range providers {
			r.add(provider.Name, "secrets", key, []byte(text), 0)
		}
	}
	return r.rows
}
