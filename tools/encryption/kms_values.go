package main

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	kms "k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2/v2"
)

// kmsPlugin is a configuration with a KMS plugin. Its endpoint is the ID of its key.
func kmsPlugin(name, endpoint string) string {
	return "{kms: {apiVersion: v2, name: " + name + ", endpoint: 'unix:///" + endpoint + "'}}"
}

var kmsPlugins = []providersRow{
	{"one", configuration(entry("secrets", kmsPlugin("kms", "one")))},
	// Writes with a single key for all values.
	{"key", configuration(entry("secrets", kmsPlugin("key", "one")))},
	{"two", configuration(entry("secrets", kmsPlugin("kms", "two")+", "+kmsPlugin("key", "two")))},
	{"rotated", configuration(entry("secrets", strings.Join([]string{keys("aesgcm", key32, "key1"), kmsPlugin("kms", "one"), kmsPlugin("key", "one"), "{identity: {}}"}, ", ")))},
	{"identity", configuration(entry("secrets", "{identity: {}}, "+kmsPlugin("kms", "one")))},
}

// changeKey is a stored value of the plugin `kms` whose key has another ID.
func changeKey(stored []byte, id string) []byte {
	start := len("k8s:enc:kms:v2:kms:")
	object := &kms.EncryptedObject{}
	if err := proto.Unmarshal(stored[start:], object); err != nil {
		panic(err)
	}
	object.KeyID = id
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(object)
	if err != nil {
		panic(err)
	}
	return append(append([]byte{}, stored[:start]...), encoded...)
}

// kmsValues are values whose keys a KMS plugin encrypts.
func kmsValues() []valueRow {
	defer encryptionconfig.SetKDFForTests("key", false)()
	r := newRecorder(kmsPlugins)
	readers := []string{"one", "key", "two", "rotated", "identity"}
	for _, writer := range []string{"one", "key"} {
		for _, size := range []int{0, 1, 16, 33, 100} {
			r.add(writer, "secrets", key, r.written(writer, "secrets", key, size), size)
		}
		stored := r.written(writer, "secrets", key, 40)
		for _, reader := range readers {
			r.add(reader, "secrets", key, stored, 40)
			r.add(reader, "secrets", other, stored, 40)
		}
		start := strings.LastIndex(string(stored), "k8s:enc:kms:v2:") + len("k8s:enc:kms:v2:kms:")
		for length := start - 2; length < len(stored); length += 8 {
			r.add(writer, "secrets", key, stored[:length], 40)
		}
		for at := start; at < len(stored); at += 5 {
			changed := append([]byte{}, stored...)
			changed[at] ^= 1 << (at % 8)
			r.add(writer, "secrets", key, changed, 40)
		}
		object := func(change func(*kms.EncryptedObject)) {
			object := &kms.EncryptedObject{}
			if err := proto.Unmarshal(stored[start:], object); err != nil {
				panic(err)
			}
			change(object)
			encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(object)
			if err != nil {
				panic(err)
			}
			r.add(writer, "secrets", key, append(append([]byte{}, stored[:start]...), encoded...), 40)
		}
		object(func(o *kms.EncryptedObject) {})
		object(func(o *kms.EncryptedObject) { o.EncryptedData = nil })
		object(func(o *kms.EncryptedObject) { o.EncryptedData = o.EncryptedData[:11] })
		object(func(o *kms.EncryptedObject) { o.EncryptedData = o.EncryptedData[:12] })
		object(func(o *kms.EncryptedObject) { o.EncryptedData = o.EncryptedData[:31] })
		object(func(o *kms.EncryptedObject) { o.EncryptedData = o.EncryptedData[:43] })
		object(func(o *kms.EncryptedObject) { o.EncryptedData = o.EncryptedData[:44] })
		object(func(o *kms.EncryptedObject) { o.KeyID = "" })
		object(func(o *kms.EncryptedObject) { o.KeyID = "two" })
		object(func(o *kms.EncryptedObject) { o.KeyID = "lost" })
		object(func(o *kms.EncryptedObject) { o.KeyID = strings.Repeat("k", 1024) })
		object(func(o *kms.EncryptedObject) { o.KeyID = strings.Repeat("k", 1025) })
		object(func(o *kms.EncryptedObject) { o.EncryptedDEKSource = nil })
		object(func(o *kms.EncryptedObject) { o.EncryptedDEKSource = o.EncryptedDEKSource[:31] })
		object(func(o *kms.EncryptedObject) { o.EncryptedDEKSource = o.EncryptedDEKSource[:24] })
		object(func(o *kms.EncryptedObject) { o.EncryptedDEKSource = make([]byte, 1024) })
		object(func(o *kms.EncryptedObject) { o.EncryptedDEKSource = make([]byte, 1025) })
		object(func(o *kms.EncryptedObject) { o.EncryptedDEKSourceType = 0 })
		object(func(o *kms.EncryptedObject) { o.EncryptedDEKSourceType = 1 })
		object(func(o *kms.EncryptedObject) { o.EncryptedDEKSourceType = 2 })
		object(func(o *kms.EncryptedObject) { o.EncryptedDEKSourceType = -1 })
		for _, name := range []string{"", "a", "a.b", "A.b", "a_b.c", "a.b.", strings.Repeat("a", 64) + ".b", strings.Repeat("a.", 130)} {
			object(func(o *kms.EncryptedObject) { o.Annotations = map[string][]byte{name: {1}} })
		}
		object(func(o *kms.EncryptedObject) { o.Annotations = nil })
		object(func(o *kms.EncryptedObject) { o.Annotations = map[string][]byte{"a.b": nil} })
		// Fields that Protobuf permits in other forms.
		bytes := func(number protowire.Number, data string) []byte {
			return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), data)
		}
		varint := func(number protowire.Number, value uint64) []byte {
			return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value)
		}
		group := protowire.AppendTag(append(protowire.AppendTag(nil, 9, protowire.StartGroupType), bytes(3, "x")...), 9, protowire.EndGroupType)
		for _, more := range [][]byte{
			varint(1, 5), bytes(5, "x"), varint(9, 5), bytes(9, "x"), group, protowire.AppendTag(nil, 9, protowire.StartGroupType),
			protowire.AppendTag(nil, 9, protowire.EndGroupType), protowire.AppendFixed64(protowire.AppendTag(nil, 9, protowire.Fixed64Type), 1),
			protowire.AppendFixed32(protowire.AppendTag(nil, 9, protowire.Fixed32Type), 1), {0}, {1, 0}, {0x0f, 0}, {0xff}, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2},
			{0x08}, {0x08, 0x80}, varint(5, 1<<32), varint(5, 1<<63), bytes(2, "two"), bytes(2, "\xff"), bytes(1, ""), bytes(3, ""), bytes(2, ""),
			bytes(4, ""), bytes(4, string(bytes(1, "key.example.com"))), bytes(4, string(bytes(1, "\xff.b"))), bytes(4, string(append(bytes(2, "v"), bytes(1, "key.example.com")...))),
			bytes(4, string(append(varint(1, 1), varint(3, 1)...))), bytes(4, "\xff"), bytes(4, string(append(append(bytes(1, "a"), bytes(1, "key.example.com")...), bytes(2, "one")...))),
			{0x28, 0x81, 0x00}, {0xaa, 0x80, 0x00, 0x00},
		} {
			r.add(writer, "secrets", key, append(append([]byte{}, stored...), more...), 40)
		}
	}
	return r.rows
}
