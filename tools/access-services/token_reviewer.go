package main

import (
	"errors"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
)

// reviewToken answers a review of a token. The user's extra says which version was asked for.
func reviewToken(object any) error {
	switch review := object.(type) {
	case *authenticationv1.TokenReview:
		review.Status = authenticate(review.Spec, "v1")
	case *authenticationv1beta1.TokenReview:
		status := authenticate(authenticationv1.TokenReviewSpec(review.Spec), "v1beta1")
		user := status.User
		review.Status = authenticationv1beta1.TokenReviewStatus{
			Authenticated: status.Authenticated,
			User:          authenticationv1beta1.UserInfo{Username: user.Username, UID: user.UID, Groups: user.Groups},
			Audiences:     status.Audiences,
			Error:         status.Error,
		}
		for key, values := range user.Extra {
			if review.Status.User.Extra == nil {
				review.Status.User.Extra = map[string]authenticationv1beta1.ExtraValue{}
			}
			review.Status.User.Extra[key] = authenticationv1beta1.ExtraValue(values)
		}
	default:
		return errors.New("not a review of a token")
	}
	return nil
}

// authenticate answers the spec of a review. The token of jane says nothing about audiences; that of robot is for two.
// All others are refused, one of them with an error.
func authenticate(spec authenticationv1.TokenReviewSpec, version string) authenticationv1.TokenReviewStatus {
	switch spec.Token {
	case "token-of-jane":
		return authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
			Username: "jane",
			UID:      "1234",
			Groups:   []string{"developers", "testers"},
			Extra: map[string]authenticationv1.ExtraValue{
				"example.org/scopes":  {"read", "write"},
				"example.org/version": {version},
			},
		}}
	case "token-of-robot":
		audiences := slices.DeleteFunc([]string{"vault", "backup"}, func(audience string) bool {
			return !slices.Contains(spec.Audiences, audience)
		})
		if len(audiences) == 0 {
			return authenticationv1.TokenReviewStatus{Error: "the token is not for these audiences"}
		}
		user := authenticationv1.UserInfo{Username: "robot"}
		return authenticationv1.TokenReviewStatus{Authenticated: true, User: user, Audiences: audiences}
	case "expired-token":
		return authenticationv1.TokenReviewStatus{Error: "the token has expired"}
	}
	return authenticationv1.TokenReviewStatus{}
}
