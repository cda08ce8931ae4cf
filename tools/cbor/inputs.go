package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
)

// input is an input to decode.
type input struct {
	into  string
	bytes []byte
}

// head encodes the head of an item of a major type (RFC 8949 section 3).
func head(major byte, n uint64) []byte {
	switch {
	case n < 24:
		return []byte{major<<5 | byte(n)}
	case n <= math.MaxUint8:
		return []byte{major<<5 | 24, byte(n)}
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16([]byte{major<<5 | 25}, uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32([]byte{major<<5 | 26}, uint32(n))
	}
	return binary.BigEndian.AppendUint64([]byte{major<<5 | 27}, n)
}

func join(items ...[]byte) []byte { return bytes.Join(items, nil) }

func uinteger(n uint64) []byte { return head(0, n) }

// negative encodes -1 - n.
func negative(n uint64) []byte { return head(1, n) }

func octets(s string) []byte { return join(head(2, uint64(len(s))), []byte(s)) }

func text(s string) []byte { return join(head(3, uint64(len(s))), []byte(s)) }

func array(items ...[]byte) []byte { return join(head(4, uint64(len(items))), join(items...)) }

func object(pairs ...[]byte) []byte { return join(head(5, uint64(len(pairs)/2)), join(pairs...)) }

func tag(n uint64, item []byte) []byte { return join(head(6, n), item) }

func raw(digits string) []byte {
	item, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	check(err)
	return item
}

func double(f float64) []byte {
	return binary.BigEndian.AppendUint64([]byte{0xfb}, math.Float64bits(f))
}

func nested(depth int, open byte, inside []byte, end []byte) []byte {
	return join(bytes.Repeat([]byte{open}, depth), inside, bytes.Repeat(end, depth))
}

// items contains CBOR items of every type, valid and invalid.
var items = [][]byte{
	uinteger(0), uinteger(7), uinteger(300), raw("1800"), raw("1900ff"), uinteger(math.MaxInt32), uinteger(math.MaxInt32 + 1), uinteger(math.MaxInt64),
	uinteger(math.MaxInt64 + 1), uinteger(math.MaxUint64),
	negative(0), negative(6), negative(math.MaxInt32), negative(math.MaxInt32 + 1), negative(math.MaxInt64), negative(math.MaxInt64 + 1),
	negative(math.MaxUint64),
	octets(""), octets("a"), octets("YQ=="), octets("\xff"), octets("5"), octets("2020-01-02T03:04:05Z"), octets("not base64!"), octets("1Gi"),
	text(""), text("a"), text("YQ=="), text("\xff"), text("5"), text("2020-01-02T03:04:05Z"), text("2020-01-02T03:04:05.000006Z"), text("é\U0001f600"),
	raw("5f ff"), raw("5f 4161 4162 ff"), raw("7f ff"), raw("7f 6161 6162 ff"), raw("7f 61c3 61a9 ff"), raw("5f 6161 ff"), raw("7f 7f6161ff ff"),
	raw("5f41 61"), raw("7f 00 ff"),
	array(), array(uinteger(1)), array(octets("a"), text("b")), array(raw("f6")), array(raw("f7")), array(uinteger(300), raw("f7")),
	array(object()), raw("9f ff"), raw("9f 01 02 ff"), raw("9f 01"), raw("9f 01 f7 ff"),
	object(), object(octets("a"), octets("b")), object(text("a"), uinteger(1)), object(uinteger(1), uinteger(2)), object(negative(1), uinteger(2)),
	object(raw("f6"), uinteger(1)), object(octets("k"), uinteger(1), raw("f6"), uinteger(2)), object(raw("f7"), uinteger(1)),
	object(raw("f5"), uinteger(1)), object(double(1.5), uinteger(1)), object(array(), uinteger(1)), object(object(), uinteger(1)),
	object(negative(math.MaxUint64), uinteger(1)), object(text("\xff"), uinteger(1)), object(octets("\xff"), uinteger(1)),
	object(tag(22, octets("a")), octets("b")), object(tag(100, text("a")), octets("b")), object(tag(0, text("a")), octets("b")),
	object(octets("a"), raw("f6")), object(octets("a"), raw("f7")), object(octets("a"), uinteger(1), text("a"), uinteger(2), octets("a"), uinteger(3)),
	object(octets("a"), raw("f7"), octets("b"), uinteger(1), octets("b"), uinteger(2)),
	object(octets("a"), octets("1"), octets("b"), uinteger(1), octets("b"), octets("2"), octets("b"), octets("3")),
	object(octets("a"), object(octets("b"), uinteger(1), octets("b"), uinteger(2)), octets("c"), raw("f7")),
	raw("bf ff"), raw("bf 4161 4162 ff"), raw("bf 4161 ff"), raw("bf 4161 4162"),
	tag(0, text("2020-01-02T03:04:05.6070Z")), tag(0, text("2020-01-02T03:04:05.1+02:30")), tag(0, text("2020-01-02T03:04:05-00:00")),
	tag(0, text("x")), tag(0, octets("2020-01-02T03:04:05Z")), tag(0, uinteger(5)), tag(0, tag(0, text("2020-01-02T03:04:05Z"))), tag(0, text("\xff")),
	tag(1, uinteger(5)), tag(1, negative(4)), tag(1, double(1.5)), tag(1, double(-1.25)), tag(1, double(1e300)), tag(1, uinteger(math.MaxUint64)),
	tag(1, negative(math.MaxUint64)), tag(1, uinteger(253402300800)), tag(1, negative(62167219200)), tag(1, text("5")), tag(1, raw("f6")), tag(1, raw("f93e00")),
	tag(2, octets("a")), tag(3, octets("a")), tag(2, uinteger(1)), tag(100, tag(2, octets("a"))),
	tag(21, octets("\xfb\xff")), tag(22, octets("\xfb\xff")), tag(23, octets("\xfb\xff")), tag(22, text("a")), tag(22, array(octets("a"), tag(23, octets("b")))),
	tag(22, object(octets("a"), octets("b"))), tag(22, tag(100, octets("a"))), tag(21, tag(22, octets("\xfb\xff"))), tag(22, uinteger(5)), tag(22, raw("f6")),
	tag(22, octets("2020-01-02T03:04:05Z")), tag(22, object(octets("a"), tag(55799, octets("b")))),
	tag(100, uinteger(5)), tag(100, octets("a")), tag(100, object(octets("a"), octets("b"))), tag(100, raw("f6")), tag(100, tag(0, text("x"))),
	tag(55799, uinteger(5)), tag(55799, octets("a")), tag(55799, tag(55799, octets("a"))), tag(55799, tag(100, tag(55799, octets("a")))),
	tag(55799, object(octets("a"), octets("b"))), tag(55799, raw("f6")), tag(55799, raw("f7")), raw("c5"), raw("d8"), raw("d9d9f7"),
	raw("f4"), raw("f5"), raw("f6"), raw("f7"), raw("e0"), raw("f3"), raw("f800"), raw("f818"), raw("f820"), raw("f8ff"), raw("fc"), raw("ff"), raw("f8"),
	raw("f93c00"), raw("f93e00"), raw("f90001"), raw("f98000"), raw("f97e00"), raw("f97c00"), raw("f9fc00"), raw("f9"), raw("fa3fc00000"), raw("fa7fc00000"),
	raw("fa7f800000"), raw("fa"), double(1), double(1.5), double(0.1), double(-2.25), double(1e300), double(math.NaN()), double(math.Inf(1)), raw("fb00"),
	raw("1c"), raw("1f"), raw("3f"), raw("5c"), raw("df"), raw("9e"), raw("5b8000000000000000"), raw("7bffffffffffffffff"), raw("9b8000000000000000"),
	raw("bb8000000000000000"), raw("9a80000000"), raw("ba00200001"), raw("9b7fffffffffffffff"), raw("5aff000000"), raw("18"), raw("1a0000"),
}

// representativeItems is a subset of items, for positions where all items would make the recording too long.
var representativeItems = [][]byte{
	uinteger(7), uinteger(math.MaxInt32 + 1), uinteger(math.MaxUint64), negative(6), negative(math.MaxUint64), octets(""), octets("a"), octets("YQ=="),
	octets("\xff"), octets("2020-01-02T03:04:05Z"), text("a"), text("\xff"), text("2020-01-02T03:04:05.000006Z"), raw("5f 4161 4162 ff"), raw("7f 6161 6162 ff"),
	array(), array(uinteger(1)), array(octets("a"), text("b")), array(raw("f6")), array(uinteger(300), raw("f7")), array(object()), raw("9f 01 02 ff"),
	object(), object(octets("a"), octets("b")), object(uinteger(1), uinteger(2)), object(raw("f6"), uinteger(1)), object(array(), uinteger(1)),
	object(text("\xff"), uinteger(1)), object(octets("a"), uinteger(1), text("a"), uinteger(2)), object(octets("a"), raw("f7"), octets("b"), uinteger(1), octets("b"), uinteger(2)),
	tag(0, text("2020-01-02T03:04:05.6070Z")), tag(0, text("x")), tag(1, uinteger(5)), tag(22, octets("\xfb\xff")), tag(22, array(octets("a"), octets("b"))),
	tag(100, octets("a")), tag(100, raw("f6")), tag(55799, object(octets("a"), octets("b"))), tag(55799, raw("f7")), raw("f5"), raw("f6"), raw("f7"), raw("f3"),
	raw("f93c00"), double(1.5), double(1e300),
}

// inputs returns every item by itself and at the positions in objects.
func inputs() []input {
	var cases []input
	add := func(into string, item []byte) { cases = append(cases, input{into, item}) }
	for _, item := range items {
		add("any", item)
	}
	add("any", nil)
	add("any", raw("0000"))
	add("any", raw("a0 f6 00"))
	add("any", nested(10_000, 0x81, raw("00"), nil))
	add("any", nested(10_001, 0x81, raw("00"), nil))
	add("any", nested(10_001, 0xa1, raw("00"), nil))
	add("any", nested(10_001, 0x9f, raw("00"), raw("ff")))
	add("any", nested(10_001, 0xc6, raw("00"), nil))
	add("any", nested(10_002, 0xc6, raw("00"), nil))
	body := func(kind, version string, fields ...[]byte) []byte {
		pairs := append([][]byte{octets("kind"), octets(kind), octets("apiVersion"), octets(version)}, fields...)
		return tag(55799, object(pairs...))
	}
	for _, item := range items {
		add("unstructured", body("A", "b/v1", octets("spec"), item))
	}
	for _, item := range []string{"f6", "80", "a0", "00", "f5", "4161", "6161", "a1 44 6b696e64 00", "a1 44 6b696e64 4141", "a2 446b696e64 4141 6a61706956657273696f6e 40",
		"a2 446b696e64 4141 6a61706956657273696f6e 00", "bf 446b696e64 40 ff", "d864a1446b696e644141", "a1 61e9 f93c00", "a3 4161 5f4162ff 4162 9f f4f6 ff 4163 7f 62c3a9 ff",
		"a2 4161 c074323032302d30312d30325430333a30343a30355a 4162 fb7e37e43c8800759c", "a2 4161 40 4162 42ff27", "a1 4161 fb3eb0c6f7a0b5ed8d", "a1 4161 fb4415af1d78b58c40",
		"a1 4161 5f ff", "a1 4161 3903e7", "a3 4161 f98000 4162 bf ff 4163 7fff"} {
		add("unstructured", raw(item))
		add("ConfigMap", raw(item))
	}
	for _, position := range positions {
		some := representativeItems
		if position.kind == "ConfigMap" && len(position.path) == 2 && position.path[0] != "metadata" {
			some = items
		}
		for _, item := range some {
			add(position.kind, position.objectWith(body, item))
		}
	}
	// Several errors at once, to record which of them is reported.
	for _, fields := range [][][]byte{
		{octets("data"), object(octets("a"), octets("b")), octets("data"), object()},
		{octets("nope"), uinteger(1), octets("data"), uinteger(1)},
		{octets("data"), uinteger(1), octets("nope"), uinteger(1)},
		{octets("nope"), uinteger(1), octets("nope"), uinteger(1)},
		{octets("nope"), uinteger(1), octets("never"), uinteger(1)},
		{octets("metadata"), object(octets("nope"), uinteger(1)), octets("never"), uinteger(1)},
		{octets("metadata"), object(octets("name"), octets("x"), octets("nope"), uinteger(1))},
		{octets("metadata"), object(octets("name"), octets("x"), text("name"), octets("y")), octets("nope"), uinteger(1)},
		{octets("metadata"), object(octets("name"), uinteger(1)), octets("data"), uinteger(2)},
		{octets("metadata"), object(octets("name"), uinteger(1)), octets("data"), object(octets("a"), octets("b"), octets("a"), octets("c"))},
		{octets("metadata"), object(octets("generation"), raw("f7"), octets("name"), uinteger(1))},
		{octets("Data"), object(), octets("DATA"), object()},
		{uinteger(1), uinteger(1), uinteger(1), uinteger(1)}, {negative(1), uinteger(1)}, {negative(math.MaxUint64), uinteger(1)}, {uinteger(math.MaxUint64), uinteger(1)},
		{raw("f6"), uinteger(1)}, {raw("f5"), uinteger(1), raw("f5"), uinteger(1)}, {double(1.5), uinteger(1), double(1.5), uinteger(2)}, {array(), uinteger(1)},
		{object(), uinteger(1), object(), uinteger(2)}, {text("\xff"), uinteger(1)}, {octets("\xff"), uinteger(1)}, {tag(100, octets("data")), object()},
		{raw("5f 426461 427461 ff"), object(octets("a"), octets("b"))}, {raw("7f 626461 627461 ff"), object(text("a"), text("b"))},
		{octets("data"), object(octets("a"), raw("f6"))}, {octets("data"), object(octets("a"), array())},
	} {
		add("ConfigMap", body("ConfigMap", "v1", fields...))
	}
	return cases
}

// position is a field path in an object of a kind.
type position struct {
	kind, version string
	path          []string
}

// objectWith encodes an object with an item at the position. "0" in a path is the first item of a list.
func (p position) objectWith(body func(string, string, ...[]byte) []byte, item []byte) []byte {
	for i := len(p.path) - 1; i > 0; i-- {
		if p.path[i] == "0" {
			item = array(item)
		} else {
			item = object(octets(p.path[i]), item)
		}
	}
	return body(p.kind, p.version, octets(p.path[0]), item)
}

var positions []position

func addPosition(version, kind, path string) {
	positions = append(positions, position{kind, version, strings.Split(path, ".")})
}

func init() {
	addKind("", "v1", "ConfigMap")
	addKind("", "v1", "Pod")
	addKind("apps", "v1", "Deployment")
	addKind("apps", "v1", "ControllerRevision")
	addKind("coordination.k8s.io", "v1", "Lease")
	addKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
	addKind("", "v1", "ResourceQuota")
	addPosition("v1", "ConfigMap", "data")
	addPosition("v1", "ConfigMap", "data.a")
	addPosition("v1", "ConfigMap", "binaryData.a")
	addPosition("v1", "ConfigMap", "immutable")
	addPosition("v1", "ConfigMap", "metadata")
	addPosition("v1", "ConfigMap", "metadata.name")
	addPosition("v1", "ConfigMap", "metadata.generation")
	addPosition("v1", "ConfigMap", "metadata.creationTimestamp")
	addPosition("v1", "ConfigMap", "metadata.deletionTimestamp")
	addPosition("v1", "ConfigMap", "metadata.finalizers")
	addPosition("v1", "ConfigMap", "metadata.ownerReferences.0.uid")
	addPosition("v1", "ConfigMap", "metadata.managedFields.0.fieldsV1")
	addPosition("v1", "ResourceQuota", "spec.hard")
	addPosition("v1", "ResourceQuota", "spec.hard.cpu")
	addPosition("apps/v1", "ControllerRevision", "data")
	addPosition("apps/v1", "ControllerRevision", "revision")
	addPosition("apps/v1", "Deployment", "spec.replicas")
	addPosition("apps/v1", "Deployment", "spec.strategy.rollingUpdate.maxSurge")
	addPosition("v1", "Pod", "spec.containers.0.livenessProbe.httpGet.port")
	addPosition("v1", "Pod", "spec.containers")
	addPosition("v1", "Pod", "spec.containers.0.ports.0.protocol")
	addPosition("coordination.k8s.io/v1", "Lease", "spec.renewTime")
	const schema = "spec.versions.0.schema.openAPIV3Schema."
	for _, path := range []string{"maximum", "default", "items", "additionalProperties", "enum", "properties.a.x-kubernetes-int-or-string"} {
		addPosition("apiextensions.k8s.io/v1", "CustomResourceDefinition", schema+path)
	}
}

// values are encoded as untyped values.
var values = []string{
	`null`, `true`, `false`, `""`, `"a"`, `"é\ud83d\ude00"`, `"aaaaaaaaaaaaaaaaaaaaaaa"`, `"aaaaaaaaaaaaaaaaaaaaaaaa"`, `"` + strings.Repeat("a", 256) + `"`,
	`0`, `23`, `24`, `255`, `256`, `65535`, `65536`, `4294967295`, `4294967296`, `9223372036854775807`, `9223372036854775808`, `-1`, `-24`, `-25`, `-256`, `-257`,
	`-65536`, `-65537`, `-4294967296`, `-4294967297`, `-9223372036854775808`, `-9223372036854775809`,
	`0.0`, `-0.0`, `1.0`, `1.5`, `0.1`, `0.5`, `65504.0`, `65505.0`, `65536.0`, `5.960464477539063e-8`, `2.980232238769531e-8`, `6.097555160522461e-5`, `6.103515625e-5`,
	`3.4028234663852886e38`, `3.4028235677973366e38`, `1.401298464324817e-45`, `1.1754943508222875e-38`, `1e300`, `-1e300`, `5e-324`, `1e21`, `0.00006109476089477539`,
	`[]`, `[1,[2,[]]]`, `[` + strings.Repeat("0,", 23) + `0]`, `{}`, `{"b":1,"a":2,"aa":3,"":4,"aaaaaaaaaaaaaaaaaaaaaaaa":5,"é":6}`,
	`{"a":{"c":null,"b":[]},"bb":{},"z":"2020-01-02T03:04:05Z"}`,
}
