package main

import (
	apiextensionsopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// The names of the types in the OpenAPI documents.

func (Flunder) OpenAPIModelName() string         { return "com.example.wardle.v1.Flunder" }
func (FlunderSpec) OpenAPIModelName() string     { return "com.example.wardle.v1.FlunderSpec" }
func (FlunderStatus) OpenAPIModelName() string   { return "com.example.wardle.v1.FlunderStatus" }
func (FlunderList) OpenAPIModelName() string     { return "com.example.wardle.v1.FlunderList" }
func (Fischer) OpenAPIModelName() string         { return "com.example.wardle.v1.Fischer" }
func (FischerList) OpenAPIModelName() string     { return "com.example.wardle.v1.FischerList" }
func (BetaFlunder) OpenAPIModelName() string     { return "com.example.wardle.v1beta1.Flunder" }
func (BetaFlunderSpec) OpenAPIModelName() string { return "com.example.wardle.v1beta1.FlunderSpec" }
func (BetaFlunderList) OpenAPIModelName() string { return "com.example.wardle.v1beta1.FlunderList" }
func (BetaFischer) OpenAPIModelName() string     { return "com.example.wardle.v1beta1.Fischer" }
func (BetaFischerList) OpenAPIModelName() string { return "com.example.wardle.v1beta1.FischerList" }

// useOpenAPI lets the server publish OpenAPI v2 and v3. Server-side apply takes its types from the same definitions.
func useOpenAPI(config *genericapiserver.Config) {
	namer := openapinamer.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	for _, info := range []*spec.Info{config.OpenAPIConfig.Info, config.OpenAPIV3Config.Info} {
		info.Title, info.Version = "Wardle", "1.0"
	}
}

// definitions returns the schemas of this server's types and of metav1, whose schemas the extensions server has.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := apiextensionsopenapi.GetOpenAPIDefinitions(ref)
	builder := definitionBuilder{ref, all}
	const reference = "The name of another Flunder."
	builder.flunder(Flunder{}.OpenAPIModelName(), FlunderSpec{}.OpenAPIModelName(), "reference", reference)
	builder.flunder(BetaFlunder{}.OpenAPIModelName(), BetaFlunderSpec{}.OpenAPIModelName(), "flunderReference", reference)
	builder.object(FlunderStatus{}.OpenAPIModelName(), "FlunderStatus is the observed state of a Flunder.", map[string]spec.Schema{
		"phase": scalar("string", "", "The phase of the Flunder. A new Flunder is Pending."),
	})
	builder.fischer(Fischer{}.OpenAPIModelName())
	builder.fischer(BetaFischer{}.OpenAPIModelName())
	builder.list(FlunderList{}.OpenAPIModelName(), "Flunder", Flunder{}.OpenAPIModelName())
	builder.list(BetaFlunderList{}.OpenAPIModelName(), "Flunder", BetaFlunder{}.OpenAPIModelName())
	builder.list(FischerList{}.OpenAPIModelName(), "Fischer", Fischer{}.OpenAPIModelName())
	builder.list(BetaFischerList{}.OpenAPIModelName(), "Fischer", BetaFischer{}.OpenAPIModelName())
	return all
}

// definitionBuilder adds definitions to a map.
type definitionBuilder struct {
	ref  common.ReferenceCallback
	into map[string]common.OpenAPIDefinition
}

// object adds the definition of an object.
func (b definitionBuilder) object(name, description string, properties map[string]spec.Schema, dependencies ...string) {
	b.into[name] = common.OpenAPIDefinition{
		Schema: spec.Schema{SchemaProps: spec.SchemaProps{
			Type: spec.StringOrArray{"object"}, Description: description, Properties: properties,
		}},
		Dependencies: dependencies,
	}
}

// kind adds the definition of a kind, with the fields that all kinds have.
func (b definitionBuilder) kind(name, description, metadata string, properties map[string]spec.Schema, dependencies ...string) {
	properties["apiVersion"] = scalar("string", "", "APIVersion defines the versioned schema of this representation of an object.")
	properties["kind"] = scalar("string", "", "Kind is a string value representing the REST resource this object represents.")
	properties["metadata"] = b.reference(metadata, "Standard object's metadata.")
	b.object(name, description, properties, append(dependencies, metadata)...)
}

func (b definitionBuilder) flunder(name, specName, referenceField, referenceDescription string) {
	status := FlunderStatus{}.OpenAPIModelName()
	b.kind(name, "Flunder is a namespaced kind with a status.", metav1.ObjectMeta{}.OpenAPIModelName(), map[string]spec.Schema{
		"spec":   b.reference(specName, "The desired state of the Flunder."),
		"status": b.reference(status, "The observed state of the Flunder."),
	}, specName, status)
	b.object(specName, "FlunderSpec is the desired state of a Flunder.", map[string]spec.Schema{
		referenceField: scalar("string", "", referenceDescription),
		"size":         scalar("integer", "int32", "The size of the Flunder. It is not negative."),
	})
}

func (b definitionBuilder) fischer(name string) {
	disallowed := scalar("array", "", "The names that no Flunder may have.")
	item := scalar("string", "", "")
	item.Default = ""
	disallowed.Items = &spec.SchemaOrArray{Schema: &item}
	disallowed.Extensions = spec.Extensions{"x-kubernetes-list-type": "set"}
	b.kind(name, "Fischer forbids names of Flunders.", metav1.ObjectMeta{}.OpenAPIModelName(), map[string]spec.Schema{
		"disallowedFlunders": disallowed,
	})
}

// list adds the definition of a list of the kind whose definition has the name itemName.
func (b definitionBuilder) list(name, kind, itemName string) {
	items := scalar("array", "", "The objects of the list.")
	item := b.reference(itemName, "")
	items.Items = &spec.SchemaOrArray{Schema: &item}
	b.kind(name, kind+"List is a list of objects of the kind "+kind+".", metav1.ListMeta{}.OpenAPIModelName(),
		map[string]spec.Schema{"items": items}, itemName)
	definition := b.into[name]
	definition.Schema.Required = []string{"items"}
	b.into[name] = definition
}

func (b definitionBuilder) reference(name, description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{
		Ref: b.ref(name), Description: description, Default: map[string]any{},
	}}
}

func scalar(kind, format, description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{
		Type: spec.StringOrArray{kind}, Format: format, Description: description,
	}}
}
