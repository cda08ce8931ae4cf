package main

import (
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
)

// eventRow is an event in both formats. The objects are as they were before they were encoded.
type eventRow struct {
	Json, Legacy                  string
	RequestObject, ResponseObject *string
	ReceivedNanos                 int
	Error                         string
}

func events() []eventRow {
	at := func(nanos int) metav1.MicroTime {
		return metav1.NewMicroTime(time.Date(2026, 2, 3, 4, 5, 6, nanos, time.UTC))
	}
	extra := func(pairs ...string) map[string]authnv1.ExtraValue {
		found := map[string]authnv1.ExtraValue{}
		for i := 0; i < len(pairs); i += 2 {
			found[pairs[i]] = append(found[pairs[i]], pairs[i+1])
		}
		return found
	}
	raw := func(text string) *runtime.Unknown {
		return &runtime.Unknown{Raw: []byte(text), ContentType: runtime.ContentTypeJSON}
	}
	all := []auditinternal.Event{
		{Level: "None", Stage: "ResponseStarted"},
		{Level: "Metadata", AuditID: "id", Stage: "RequestReceived", RequestURI: "/api/v1/pods?a=<b>&c", Verb: "list",
			User: authnv1.UserInfo{Username: "jane", Groups: []string{"dev", "a\"b"}}, SourceIPs: []string{"10.0.0.1", "::1"},
			UserAgent: "kubectl/v1.36 (é\u2028)", RequestReceivedTimestamp: at(123456789), StageTimestamp: at(123456999)},
		{Level: "Request", AuditID: "id", Stage: "ResponseComplete", RequestURI: "/x", Verb: "create",
			User:                   authnv1.UserInfo{Username: "admin", UID: "u", Groups: []string{"system:masters"}, Extra: extra("z", "1", "a", "2", "z", "3")},
			ImpersonatedUser:       &authnv1.UserInfo{Username: "other", UID: "v", Groups: []string{"g"}, Extra: extra("k", "<")},
			AuthenticationMetadata: &auditinternal.AuthenticationMetadata{ImpersonationConstraint: "impersonate:user-info"},
			ObjectRef: &auditinternal.ObjectReference{Resource: "deployments", Namespace: "shop", Name: "a", UID: "w", APIGroup: "apps",
				APIVersion: "v1", ResourceVersion: "7", Subresource: "scale"},
			ResponseStatus: &metav1.Status{Code: 201}, RequestObject: raw("{ \"b\" : 1,\n\t\"a\": \"<&>\u2028 \\\" x\" }"),
			ResponseObject: raw(`[{"kind":"X"}]`), RequestReceivedTimestamp: at(1000), StageTimestamp: at(0),
			Annotations: map[string]string{"b": "2", "authorization.k8s.io/decision": "allow", "a": ""}},
		{Level: "RequestResponse", AuditID: "x\ny", Stage: "Panic", Verb: "patch", ImpersonatedUser: &authnv1.UserInfo{},
			AuthenticationMetadata: &auditinternal.AuthenticationMetadata{}, ObjectRef: &auditinternal.ObjectReference{},
			ResponseStatus: &metav1.Status{Status: "Failure", Message: "m", Reason: "NotFound", Code: 404,
				Details: &metav1.StatusDetails{Name: "n", Group: "g", Kind: "k", UID: "u", RetryAfterSeconds: 3,
					Causes: []metav1.StatusCause{{Type: "t", Message: "m", Field: "f"}, {}}}},
			RequestObject: raw(`"a b"`), ResponseObject: raw(" 1.50e+3 "), RequestReceivedTimestamp: at(120000000), StageTimestamp: at(999999999)},
		{Level: "Metadata", Stage: "Panic", ResponseStatus: &metav1.Status{Details: &metav1.StatusDetails{}}, Annotations: map[string]string{},
			SourceIPs: []string{}, User: authnv1.UserInfo{Groups: []string{"without a name"}},
			ImpersonatedUser: &authnv1.UserInfo{Username: "a", Groups: []string{"x", "y"}}},
	}
	for _, text := range []string{"", " ", "{", "{}x", "a: 1", `{"a":01}`, "[1,]", "\"\x01\"", `"\ud800"`, `{"a":1,"a":2}`, "1e999", "nul", "null", "\ufeff{}"} {
		all = append(all, auditinternal.Event{Level: "Request", Stage: "Panic", RequestObject: raw(text)})
	}
	encoder := audit.Codecs.LegacyCodec(auditv1.SchemeGroupVersion)
	var rows []eventRow
	object := func(unknown *runtime.Unknown) *string {
		if unknown == nil {
			return nil
		}
		text := string(unknown.Raw)
		return &text
	}
	for _, event := range all {
		row := eventRow{Legacy: audit.EventString(&event), ReceivedNanos: event.RequestReceivedTimestamp.Nanosecond(),
			RequestObject: object(event.RequestObject), ResponseObject: object(event.ResponseObject)}
		encoded, err := runtime.Encode(encoder, &event)
		row.Json = string(encoded)
		if err != nil {
			row.Error = err.Error()
		}
		rows = append(rows, row)
	}
	// The list of the first events, as a webhook gets it.
	list := &auditinternal.EventList{Items: all[1:3]}
	encoded, err := runtime.Encode(encoder, list)
	if err != nil {
		panic(err)
	}
	return append(rows, eventRow{Json: string(encoded)})
}
