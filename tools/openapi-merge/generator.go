package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

type object = map[string]any
type list = []any

// generator makes random documents. Few names and few contents let documents share and contradict definitions.
type generator struct {
	*rand.Rand
	// strict limits documents to the fields that the Protobuf messages have.
	strict bool
	// depth is the current nesting of schemas.
	depth int
}

func (g *generator) oneIn(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *generator, choices ...T) T { return choices[g.IntN(len(choices))] }

var definitionNames = []string{"A", "B", "C", "D", "E", "A_v2", "B_v3", "x.y[Z]"}
var parameterNames = []string{"p", "q", "body-r", "p_v2"}

// fixed is a generator whose values depend on the name and the variant only.
func (g *generator) fixed(name string, variant int) *generator {
	seed := uint64(variant)
	for _, char := range name {
		seed = seed*31 + uint64(char)
	}
	return &generator{Rand: rand.New(rand.NewPCG(7, seed)), strict: g.strict}
}

func (g *generator) groupVersions() [][2]string {
	all := [][2]string{
		{"one.example", "v1"}, {"one.example", "v2"}, {"two.example", "v1"}, {"three.example", "v1"}, {"four.example", "v1"},
	}
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+g.IntN(len(all))]
}

// local is a document without the fields of the root that the aggregator replaces.
func (g *generator) local() object {
	paths := g.paths("local.example", "v1")
	delete(paths, "x-paths")
	// Some paths of aggregated servers exist already.
	if g.oneIn(4) {
		paths["/apis/one.example/v1/things/{name}"] = g.pathItem()
	}
	if g.oneIn(8) {
		paths["/apis/one.example/v1/"] = g.pathItem()
	}
	return object{"swagger": "2.0", "paths": paths, "definitions": g.definitions(), "parameters": g.parameters()}
}

func (g *generator) remote(group, version string) object {
	paths := g.paths(group, version)
	maps.Copy(paths, g.paths("other.example", "v1"))
	document := object{"swagger": "2.0", "paths": paths, "definitions": g.definitions(), "parameters": g.parameters()}
	if g.oneIn(5) {
		delete(document, pick(g, "paths", "definitions", "parameters", "swagger"))
	}
	if g.oneIn(5) {
		document["responses"] = object{"r": g.response()}
	}
	return document
}

// whole is a document with all fields.
func (g *generator) whole() object {
	document := g.remote("one.example", "v1")
	for _, key := range []string{"swagger", "paths"} {
		if document[key] == nil {
			document[key] = object{"swagger": "2.0", "paths": object{}}[key]
		}
	}
	info := object{"title": "T", "version": "1"}
	if g.oneIn(2) {
		info["contact"] = object{"name": "n", "email": "e@example.com", "url": "http://example.com"}
		info["license"] = object{"name": "l"}
		info["termsOfService"] = "http://example.com/terms"
		info["description"] = "about"
		info["x-info"] = g.value()
	}
	document["info"] = info
	g.maybe(document, object{
		"externalDocs": object{"url": "http://example.com", "description": "docs"},
		"host":         "example.com", "basePath": "/", "schemes": list{"https"},
		"produces": list{"application/json", "application/yaml"}, "consumes": list{"application/json"},
		"tags":     list{object{"name": "t", "description": "d", "x-tag": 1, "externalDocs": object{"url": "http://example.com"}}},
		"security": list{object{"key": list{}, "oauth": list{"a", "b"}}, object{"basic": list{}}},
		"securityDefinitions": object{
			"key":      object{"type": "apiKey", "name": "authorization", "in": "header", "description": "d", "x-key": true},
			"basic":    object{"type": "basic", "description": "b"},
			"implicit": object{"type": "oauth2", "flow": "implicit", "authorizationUrl": "http://a", "scopes": object{"a": "b"}},
			"password": object{"type": "oauth2", "flow": "password", "tokenUrl": "http://t", "scopes": object{}},
			"app":      object{"type": "oauth2", "flow": "application", "tokenUrl": "http://t", "scopes": object{"a": "b", "c": ""}},
			"oauth": object{
				"type": "oauth2", "flow": "accessCode", "authorizationUrl": "http://a", "tokenUrl": "http://t",
				"scopes": object{"a": "b"}, "description": "o", "x-o": object{},
			},
		},
		"x-root": g.value(),
	})
	return document
}

// maybe adds each of the fields with a chance.
func (g *generator) maybe(target, fields object) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if g.oneIn(5) {
			target[key] = fields[key]
		}
	}
}

func (g *generator) paths(group, version string) object {
	prefix := "/apis/" + group + "/" + version
	paths := object{prefix + "/": g.pathItem()}
	for _, path := range []string{"/things", "/things/{name}", "/things/{name}/status"} {
		if g.oneIn(3) {
			paths[prefix+path] = g.pathItem()
		}
	}
	if g.oneIn(6) {
		paths["x-paths"] = g.value()
	}
	return paths
}

func (g *generator) pathItem() object {
	item := object{}
	for _, method := range []string{"get", "put", "post", "delete", "options", "head", "patch"} {
		if g.oneIn(14) {
			item[method] = g.operation()
		}
	}
	if g.oneIn(3) {
		item["parameters"] = list{g.parameterUse()}
	}
	g.maybe(item, object{"x-item": g.value()})
	return item
}

func (g *generator) operation() object {
	responses := object{"200": g.responseUse()}
	g.maybe(responses, object{"default": g.responseUse(), "x-responses": g.value(), "404": g.response()})
	operation := object{"responses": responses}
	g.maybe(operation, object{
		"tags": list{"a", "b"}, "summary": "s", "description": "d", "operationId": fmt.Sprint("id", g.IntN(99)),
		"consumes": list{"*/*"}, "produces": list{"application/json", "text/plain"}, "schemes": list{"https"},
		"deprecated": g.oneIn(2), "security": list{object{"key": list{}}}, "x-operation": g.value(),
		"parameters":   list{g.parameterUse(), g.body("body", g.schema())},
		"externalDocs": object{"url": "http://example.com", "description": "d"},
	})
	return operation
}

func (g *generator) responseUse() object {
	if g.oneIn(6) && !g.strict {
		return object{"$ref": "#/responses/r"}
	}
	return g.response()
}

func (g *generator) response() object {
	response := object{"description": "OK"}
	g.maybe(response, object{
		"schema": g.schema(), "examples": object{"application/json": g.value()}, "x-response": g.value(),
		"headers": object{"X-H": g.simple(object{"description": "h"})},
	})
	return response
}

func (g *generator) parameterUse() object {
	if g.oneIn(2) {
		return object{"$ref": "#/parameters/" + pick(g, parameterNames...)}
	}
	return g.parameter()
}

func (g *generator) parameter() object {
	if g.oneIn(3) {
		return g.body(pick(g, "body", "content"), g.schema())
	}
	in := pick(g, "query", "path", "header", "formData")
	fields := object{"name": pick(g, "a", "b"), "in": in}
	if in == "path" {
		fields["required"] = true
	}
	g.maybe(fields, object{"description": "d", "x-parameter": g.value()})
	if in != "path" && g.oneIn(2) {
		fields["required"] = g.oneIn(2)
	}
	if (in == "query" || in == "formData") && g.oneIn(3) {
		fields["allowEmptyValue"] = g.oneIn(2)
	}
	return g.simple(fields)
}

func (g *generator) body(name string, schema object) object {
	body := object{"name": name, "in": "body", "schema": schema}
	g.maybe(body, object{"required": true, "description": "d", "x-body": 1})
	return body
}

// simple adds the fields of a value that is not a schema.
func (g *generator) simple(fields object) object {
	fields["type"] = pick(g, "string", "integer", "number", "boolean")
	g.maybe(fields, object{
		"format": "f", "uniqueItems": g.oneIn(2), "maximum": 1.5, "minimum": -3, "exclusiveMaximum": g.oneIn(2),
		"maxLength": 9, "minLength": 0, "pattern": "^a", "maxItems": 3, "minItems": 1, "multipleOf": 2,
		"exclusiveMinimum": g.oneIn(2), "enum": list{"a", 1, true},
	})
	if g.oneIn(4) {
		fields["type"] = "array"
		fields["collectionFormat"] = "csv"
		fields["items"] = object{"type": "string", "default": "a"}
		if !g.strict {
			fields["items"] = object{"$ref": "#/definitions/" + pick(g, definitionNames...)}
		}
	}
	if g.oneIn(4) {
		fields["default"] = pick[any](g, "a", 0, "", list{}, object{"a": 1})
	}
	return fields
}

func (g *generator) parameters() object {
	parameters := object{}
	for _, name := range parameterNames {
		if g.oneIn(2) {
			parameters[name] = g.fixed(name, g.IntN(3)).parameter()
		}
	}
	return parameters
}

func (g *generator) definitions() object {
	definitions := object{}
	for _, name := range definitionNames {
		if g.oneIn(3) {
			continue
		}
		schema := g.fixed(name, max(0, g.IntN(5)-2)).schema()
		if g.oneIn(3) {
			// Extensions exist, so that upstream can add kinds.
			schema["x-kinds"] = true
			if g.oneIn(2) {
				schema["x-kubernetes-group-version-kind"] = g.kinds()
			}
		}
		definitions[name] = schema
	}
	return definitions
}

func (g *generator) kinds() list {
	kinds := list{}
	for range 1 + g.IntN(3) {
		kinds = append(kinds, object{"group": pick(g, "", "a", "b"), "version": pick(g, "v1", "v2"), "kind": pick(g, "K", "L")})
	}
	return kinds
}

func (g *generator) reference() object {
	return object{"$ref": "#/definitions/" + pick(g, definitionNames...)}
}

func (g *generator) schema() object {
	g.depth++
	defer func() { g.depth-- }()
	if g.depth > 2 || g.oneIn(3) {
		schema := g.reference()
		if g.oneIn(3) {
			schema["description"] = "sibling"
		}
		return schema
	}
	schema := object{}
	g.maybe(schema, object{
		"type": pick(g, "object", "string", "array"), "description": pick(g, "d", "e"), "format": "f", "title": "t",
		"default": pick[any](g, "", 0, object{}, list{}, object{"a": list{1, nil}}), "required": list{"a"},
		"enum": list{"a", nil, 2.5}, "maximum": 10, "minimum": 0.25, "exclusiveMaximum": g.oneIn(2), "pattern": "a: b",
		"exclusiveMinimum": g.oneIn(2), "maxLength": 4, "minLength": 0, "maxItems": 1, "minItems": 0, "uniqueItems": true,
		"multipleOf": 1e21, "maxProperties": 5, "minProperties": 1, "discriminator": "a", "readOnly": g.oneIn(2),
		"externalDocs": object{"url": "http://example.com"}, "example": pick[any](g, "", 0, false, "text", list{1}),
		"x-schema": g.value(),
	})
	if g.oneIn(2) {
		schema["properties"] = object{"a": g.schema(), "b": g.schema()}
	}
	switch g.IntN(4) {
	case 0:
		schema["items"] = g.schema()
	case 1:
		schema["additionalProperties"] = pick[any](g, g.schema(), true, false)
	case 2:
		schema["allOf"] = list{g.schema(), g.reference()}
	}
	if !g.strict {
		g.maybe(schema, object{
			"nullable": g.oneIn(2), "unknown": g.value(), "id": "i", "$schema": "http://json-schema.org/draft-04/schema#",
		})
		switch g.IntN(10) {
		case 0:
			schema["oneOf"] = list{g.schema()}
		case 1:
			schema["anyOf"] = list{g.schema(), g.schema()}
		case 2:
			schema["not"] = g.schema()
		case 3:
			schema["patternProperties"] = object{"^a": g.schema()}
		case 4:
			schema["definitions"] = object{"Inner": g.schema()}
		case 5:
			schema["dependencies"] = object{"a": g.schema(), "b": list{"a"}}
		case 6:
			schema["additionalItems"] = pick[any](g, g.schema(), true)
			schema["items"] = list{g.schema(), g.schema()}
		case 7:
			schema["type"] = pick[any](g, list{"object"}, list{"string", "null"})
		}
	}
	return schema
}

// value is any value.
func (g *generator) value() any {
	return pick[any](g, "text", "", "true", "a: b", "multi\nline", 1, 0, -2.5, 1e30, 9007199254740993, true, false, list{}, object{},
		list{"a", object{"b": 1, "a": "x"}}, object{"k": object{"l": list{1, 2}}, "j": "v"})
}

// damaged replaces some values by values of any type.
func (g *generator) damaged(value any) any {
	switch value := value.(type) {
	case object:
		result := object{}
		keys := slices.Sorted(maps.Keys(value))
		chosen := g.IntN(max(1, len(keys)))
		for i, key := range keys {
			result[key] = value[key]
			if i == chosen {
				result[key] = g.damaged(value[key])
			}
		}
		if len(keys) > 0 && !g.oneIn(6) {
			return result
		}
	case list:
		if len(value) > 0 && !g.oneIn(4) {
			result := slices.Clone(value)
			at := g.IntN(len(result))
			result[at] = g.damaged(result[at])
			return result
		}
	}
	return pick[any](g, nil, "", "text", "#/definitions/A", 1, 1.5, true, false, list{}, list{"a"}, list{nil}, object{}, object{"a": nil},
		object{"$ref": "#/definitions/%zz"}, object{"$ref": 1})
}
