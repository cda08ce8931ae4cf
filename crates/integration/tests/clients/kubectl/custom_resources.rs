//! Custom resources in kubectl: explain, field validation, tables, scale, edit and delete.

use super::client::Kubectl;

const WIDGETS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    selectableFields:
    - jsonPath: .spec.colour
    additionalPrinterColumns:
    - {name: Colour, type: string, jsonPath: .spec.colour}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    schema:
      openAPIV3Schema:
        type: object
        description: A thing that has a colour.
        properties:
          spec:
            type: object
            required: [colour]
            properties:
              colour: {type: string, description: What it looks like., enum: [red, green]}
              replicas: {type: integer, default: 1}
              parts:
                type: array
                items:
                  type: object
                  properties:
                    size: {x-kubernetes-int-or-string: true}
                    notes: {type: object, additionalProperties: {type: string}}
          status:
            type: object
            properties:
              replicas: {type: integer}
"#;

/// A widget of a colour.
fn widget(name: &str, colour: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {{colour: {colour}}}\n")
}

fn cluster_with_widgets() -> Kubectl {
    let k = Kubectl::start();
    k.run_with_stdin("create -f -", WIDGETS)
        .prints("customresourcedefinition.apiextensions.k8s.io/widgets.example.com created");
    k.prints(
        "wait --for=condition=Established crd/widgets.example.com --timeout=20s",
        "customresourcedefinition.apiextensions.k8s.io/widgets.example.com condition met",
    );
    k
}

#[test]
fn explain_shows_the_defined_fields() {
    let k = cluster_with_widgets();
    k.prints(
        "explain widget.spec --recursive",
        "
        GROUP:      example.com
        KIND:       Widget
        VERSION:    v1

        FIELD: spec <Object>


        DESCRIPTION:
            <empty>
        FIELDS:
          colour\t<string> -required-
          enum: red, green
          parts\t<[]Object>
            notes\t<map[string]string>
            size\t<Object>
          replicas\t<integer>
        ",
    );
    let whole = k.succeeds("explain wd").stdout;
    assert!(whole.contains("A thing that has a colour."), "{whole}");
    k.prints("api-resources --api-group=example.com --no-headers", "widgets   wd    example.com/v1   true   Widget");
}

#[test]
fn unknown_and_invalid_fields_are_errors() {
    let k = cluster_with_widgets();
    let wrong = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {colour: red, color: blue}\n";
    k.run_with_stdin("create -f -", wrong).fails(
        "Error from server (BadRequest): error when creating \"STDIN\": Widget in version \"v1\" cannot be handled as a \
         Widget: strict decoding error: unknown field \"spec.color\"",
    );
    k.run_with_stdin("create -f -", &widget("a", "blue")).fails(
        "The Widget \"a\" is invalid: spec.colour: Unsupported value: \"blue\": supported values: \"red\", \"green\"",
    );
    k.run_with_stdin("create --validate=ignore -f -", wrong).prints("widget.example.com/a created");
}

#[test]
fn objects_are_listed_scaled_and_edited() {
    let k = cluster_with_widgets();
    for (name, colour) in [("a", "red"), ("b", "green")] {
        k.run_with_stdin("create -f -", &widget(name, colour)).prints(&format!("widget.example.com/{name} created"));
    }
    k.prints("scale widget/a --replicas=3", "widget.example.com/a scaled");
    k.fails("scale widget/a --current-replicas=1 --replicas=2", "error: Expected replicas to be 1, was 3");
    k.prints(
        "get wd",
        "
        NAME   COLOUR   REPLICAS
        a      red      3
        b      green    1
        ",
    );
    k.prints("get wd --field-selector=spec.colour!=red -o name", "widget.example.com/b");
    k.prints("get wd --field-selector=spec.colour=red -o name", "widget.example.com/a");
    k.edit("edit widget a", &k.editor("s/colour: red/colour: green/")).prints("widget.example.com/a edited");
    k.prints("get wd a -o jsonpath={.spec.colour}", "green");
    k.prints(
        "delete crd widgets.example.com",
        "customresourcedefinition.apiextensions.k8s.io \"widgets.example.com\" deleted",
    );
    // kubectl still has the kind in its discovery cache.
    k.fails(
        "get wd",
        "Error from server (NotFound): Unable to list \"example.com/v1, Resource=widgets\": the server could not find the \
         requested resource (get widgets.example.com)",
    );
}
