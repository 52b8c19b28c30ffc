package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PolicyStatus says whether a policy is enforced. Usher writes it; what is written here by
// anyone else has no effect.
type PolicyStatus struct {
	// ObservedGeneration is the generation that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Compiled, Enforced, where a policy needs a proof, Proven, and, once a rule
	// has failed in service, Working. The observedGeneration of Enforced is the
	// generation in force, an older one while the newest does not compile.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Problems are what is wrong with the policy, errors first.
	// +optional
	// +listType=atomic
	Problems []PolicyProblem `json:"problems,omitempty"`
	// LastError is what is wrong with the policy, in one line: the first error among the problems,
	// else how a rule fails in service, else the first warning.
	// +optional
	LastError string `json:"lastError,omitempty"`
}

// PolicyProblem is one thing that is wrong with a policy.
type PolicyProblem struct {
	// Severity is error, if it keeps the policy from being enforced as written, or warning.
	Severity string `json:"severity"`
	// Field is the path of the field, such as spec.overrideRules[0].overriders.cue.
	// +optional
	Field string `json:"field,omitempty"`
	// What is wrong.
	What string `json:"what"`
	// Do is what to do about it.
	// +optional
	Do string `json:"do,omitempty"`
}

// The types of conditions of a policy.
const (
	// ConditionCompiled: the policy can be enforced as it is written.
	ConditionCompiled = "Compiled"
	// ConditionEnforced: every replica decides by the generation that the condition observed,
	// and API servers ask them.
	ConditionEnforced = "Enforced"
	// ConditionProven: the writer of the policy is known to have had the right to write it.
	// Only kinds that need a proof have it.
	ConditionProven = "Proven"
	// ConditionWorking: False as long as a rule of the policy fails in service, and True when it
	// works again or has been edited. It is not there as long as none has failed.
	ConditionWorking = "Working"
)

// The reasons of conditions of a policy.
const (
	// ReasonProven: the policy has a valid proof.
	ReasonProven = "Proven"
	// ReasonUnproven: the policy has no valid proof. Enforced says whether it is in force.
	ReasonUnproven = "Unproven"
	// ReasonCompiled: the policy compiles.
	ReasonCompiled = "Compiled"
	// ReasonDoesNotCompile: the newest version does not compile. Of Enforced: and no
	// version is in force.
	ReasonDoesNotCompile = "DoesNotCompile"
	// ReasonPending: the newest version is not compiled yet. Of Enforced: and until it is, the
	// policy fails whenever it is asked, so that the failure policy answers.
	ReasonPending = "Pending"
	// ReasonTooManyPolicies: the policy is not in force, since its namespace has too many.
	ReasonTooManyPolicies = "TooManyPolicies"
	// ReasonEnforced: every live replica decides by the newest version.
	ReasonEnforced = "Enforced"
	// ReasonNotEnforced: the policy compiles, but something else stands in for it, such as
	// a policy of the same name in a file.
	ReasonNotEnforced = "NotEnforced"
	// ReasonNoSuchKind: the cluster has none of the kinds that the policy selects.
	ReasonNoSuchKind = "NoSuchKind"
	// ReasonPropagating: a live replica does not decide by the newest version yet.
	ReasonPropagating = "Propagating"
	// ReasonNotRegistered: the webhook configurations could not be written, so that API
	// servers may not ask about what the policy selects.
	ReasonNotRegistered = "NotRegistered"
	// ReasonNotCalled: API servers do not call the webhooks, or get no answer from them.
	ReasonNotCalled = "NotCalled"
	// ReasonNoServer: the last server has ended.
	ReasonNoServer = "NoServer"
	// ReasonUninstalled: the webhook configurations have been deleted.
	ReasonUninstalled = "Uninstalled"
	// ReasonNotVerified: every live replica decides by the newest version, and whether API
	// servers ask them is not known.
	ReasonNotVerified = "NotVerified"
	// ReasonLastGoodVersion: the newest version does not compile, an older one is in force.
	ReasonLastGoodVersion = "LastGoodVersion"
	// ReasonRuleFails: a rule of the version in force fails in service.
	ReasonRuleFails = "RuleFails"
	// ReasonRecovered: the rules that failed have worked since, or have not failed for an hour.
	ReasonRecovered = "Recovered"
	// ReasonEdited: rules of an older version failed, and none of this one has.
	ReasonEdited = "Edited"
	// ReasonReplicasDiffer: the newest version does not compile, and of the older ones not
	// every replica has the same in force.
	ReasonReplicasDiffer = "ReplicasDiffer"
)
