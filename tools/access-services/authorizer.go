package main

import (
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// authorize answers a review of access.
func authorize(object any) error {
	switch review := object.(type) {
	case *authorizationv1.SubjectAccessReview:
		review.Status = decide(review.Spec)
	case *authorizationv1beta1.SubjectAccessReview:
		status := decide(authorizationv1.SubjectAccessReviewSpec{
			User:               review.Spec.User,
			Groups:             review.Spec.Groups,
			ResourceAttributes: (*authorizationv1.ResourceAttributes)(review.Spec.ResourceAttributes),
		})
		review.Status = authorizationv1beta1.SubjectAccessReviewStatus(status)
	default:
		return errors.New("not a review of access")
	}
	return nil
}

// decide answers the spec of a review. alice may do everything but read secrets, which is denied; nodes may list what
// they select by their name; all others are unknown.
func decide(spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	resource := spec.ResourceAttributes
	switch {
	case resource == nil:
		return authorizationv1.SubjectAccessReviewStatus{Reason: "only resources"}
	case spec.User == "alice" && resource.Resource == "secrets":
		return authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "no secrets for alice"}
	case spec.User == "alice":
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	case resource.FieldSelector != nil && selects(resource.FieldSelector, "spec.nodeName", spec.User):
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	}
	return authorizationv1.SubjectAccessReviewStatus{Reason: fmt.Sprintf("%s is unknown", spec.User)}
}

// selects tells whether a selector requires a value.
func selects(selector *authorizationv1.FieldSelectorAttributes, key, value string) bool {
	for _, requirement := range selector.Requirements {
		isIn := requirement.Operator == metav1.FieldSelectorOpIn
		if requirement.Key == key && isIn && len(requirement.Values) == 1 && requirement.Values[0] == value {
			return true
		}
	}
	return false
}
