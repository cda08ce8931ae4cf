//! Tokens of service accounts, as users request and use them.

use super::client::Kubectl;

#[test]
fn created_tokens_authenticate_their_service_account() {
    let k = Kubectl::bootstrapped();
    k.succeeds("create serviceaccount robot");
    let token = k.stdout("create token robot --duration=20m");
    let robot = k.with_token(token.trim());
    let who = "auth whoami -o 'jsonpath={.status.userInfo.username} {.status.userInfo.groups}'";
    k.prints(
        &format!("{robot} {who}"),
        r#"system:serviceaccount:default:robot ["system:serviceaccounts","system:serviceaccounts:default","system:authenticated"]"#,
    );
    k.fails(&format!("{robot} get pods"), "Error from server (Forbidden): pods is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"");
    k.succeeds("create rolebinding robots --clusterrole=view --serviceaccount=default:robot");
    // `view` has rules once they are aggregated.
    k.succeeds("wait --for=jsonpath={.rules[0].apiGroups} clusterrole/view");
    k.succeeds(&format!("{robot} get pods"));
    k.succeeds("delete serviceaccount robot");
    k.fails("create token robot", "error: failed to create token: serviceaccounts \"robot\" not found");
}

#[test]
fn created_tokens_are_bound_and_limited() {
    let k = Kubectl::bootstrapped();
    k.succeeds("create secret generic s");
    let uid = k.stdout("get secret s -o jsonpath={.metadata.uid}");
    k.prints(
        &format!(
            "create token default --bound-object-kind=Secret --bound-object-name=s --bound-object-uid={uid} \
             --audience=vault -o 'jsonpath={{.spec.audiences}} {{.spec.boundObjectRef.name}} {{.spec.expirationSeconds}}'"
        ),
        r#"["vault"] s 3600"#,
    );
    k.fails(
        "create token default --bound-object-kind=Secret --bound-object-name=gone",
        "error: failed to create token: secrets \"gone\" not found",
    );
    k.fails(
        "create token default --duration=1m",
        "error: failed to create token: TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: \
         Invalid value: 60: may not specify a duration less than 10 minutes",
    );
}

#[test]
fn token_secrets_are_described_with_their_token() {
    let k = Kubectl::bootstrapped();
    let secret = "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"type\": \"kubernetes.io/service-account-token\", \
                  \"metadata\": {\"name\": \"s\", \"annotations\": {\"kubernetes.io/service-account.name\": \"default\"}}}";
    let secret = k.file("secret.json", secret);
    k.succeeds(&format!("apply -f {secret}"));
    k.succeeds("wait --for=jsonpath={.data.token} secret/s");
    let described = k.stdout("describe secret s");
    let token = described.lines().find_map(|line| line.strip_prefix("token:")).expect("a token").trim().to_owned();
    let flags = k.with_token(&token);
    k.prints(
        &format!("{flags} auth whoami -o jsonpath={{.status.userInfo.username}}"),
        "system:serviceaccount:default:default",
    );
}
