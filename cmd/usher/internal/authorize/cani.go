package authorize

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	"github.com/usher-dev/usher/fact/cluster"
	explain "github.com/usher-dev/usher/internal/explain/authz"
	"github.com/usher-dev/usher/internal/rule/authz"
)

type canIFlags struct {
	world   worldFlags
	user    user.Flags
	target  targetFlags
	explain bool
	output  cli.OutputFlag
	color   cli.ColorFlag
}

func newCanI(s cli.Streams) *cobra.Command {
	var f canIFlags
	cmd := &cobra.Command{
		Use:   "can-i VERB RESOURCE[/NAME]",
		Short: "Say whether a user may do something, and why",
		Long: `Can-i answers as an API server would: stage by stage, until one allows or denies. With
--explain it shows what each stage says, which policies match, which nearly do with the
clause that keeps them from it, and what would pass in place of what is denied.

With --kubeconfig the cluster's API server is asked, too, in a SubjectAccessReview. An
answer that differs comes first: the API server has policies in files, which --policies
would name, or other authorizers, or remembers an answer for half a minute. With --policies
or --rbac the question is about what the cluster may not have: then it is a note. Where
roles, bindings or policies cannot be read, the cluster's answer is the one that counts.

A resource can be written with its group, such as deployments.apps; a path begins with a
slash. Without -n a request is for the namespace of the kubeconfig's context, as in kubectl,
and without a cluster for all namespaces, as with -A; namespaces/NAME is in the namespace
NAME, so that what is bound there counts. The exit status is 0 if the request is allowed, 1
if it is not, 2 if that cannot be found out, and 3 if without --policies and --rbac the
cluster's answer is another one.`,
		Example: `  usher authz can-i get pods/web -n shop --as jane --as-group devs -p policies/ --rbac rbac/
  usher authz can-i list secrets -n shop --as jane -p policies/ --explain
  usher authz can-i list pods -l owner=jane --as jane -p policies/
  usher authz can-i create pods --subresource exec -n shop --as jane --kubeconfig ~/.kube/config
  usher authz can-i get /metrics --as jane -p policies/
  usher authz can-i --url 'DELETE:/apis/apps/v1/namespaces/shop/deployments/web' --as jane -p policies/`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := f.answer(cmd, s, args)
			if err != nil {
				return err
			}
			err = f.output.Report(s.Out, report, func() error { return report.print(s.Out, f.color.Palette(s.Out), f.explain) })
			switch {
			case err != nil:
				return err
			case report.disputed():
				return cli.ErrDisputed
			case report.unknown():
				return errors.New("cannot tell whether the request is allowed: ask somebody who may read all roles, bindings and policies")
			case !report.Allowed:
				return cli.ErrNegative
			}
			return nil
		},
	}
	f.world.register(cmd.Flags())
	f.user.Register(cmd.Flags())
	f.target.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.explain, "explain", false, "explain the answer: what each stage says, and which policies nearly match")
	f.output.Register(cmd, "text", "json", "yaml")
	f.color.Register(cmd)
	cli.Offer(cmd, "subresource", subresources...)
	cmd.ValidArgsFunction = cobra.FixedCompletions(verbs, cobra.ShellCompDirectiveNoFileComp)
	return cmd
}

func (f *canIFlags) answer(cmd *cobra.Command, s cli.Streams, args []string) (*canIReport, error) {
	ctx := cmd.Context()
	w, err := f.world.load(cmd, s, f.target.in(&f.world))
	if err != nil {
		return nil, err
	}
	u, err := f.asker(ctx, w)
	if err != nil {
		return nil, err
	}
	r, err := f.target.request(args, u, w)
	if err != nil {
		return nil, err
	}
	report, err := w.Explain(ctx, r)
	if err != nil {
		return nil, err
	}
	if w.clients != nil {
		report.WhatIf = f.world.whatIf()
		report.Partial = len(w.leftOut)+len(w.within) > 0
		answer, err := w.askCluster(ctx, r)
		if err != nil {
			w.warnings = append(w.warnings, err.Error())
		} else {
			report.ask(answer)
		}
		report.refusable = isWrite(r)
	}
	w.warn(cmd, s)
	return report, nil
}

// asker returns the user that the flags name, or the user as which the cluster authenticates the
// caller.
func (f *canIFlags) asker(ctx context.Context, w *World) (usher.User, error) {
	if f.user.Given() {
		return f.user.User()
	}
	if w.clients == nil {
		return usher.User{}, errors.New("nobody asks: name a user with --as, or a group with --as-group")
	}
	w.self = true
	return user.Self(ctx, w.clients.Kube)
}

// Explain answers a request, and reports the answer of every stage.
func (w *World) Explain(ctx context.Context, r *usher.Request) (*canIReport, error) {
	x, err := w.Engine.Explain(ctx, r)
	if err != nil {
		return nil, err
	}
	answer, steps := w.chain().Explain(ctx, r)
	report := &canIReport{
		Request: describeRequest(r), User: r.User, Allowed: answer.Verdict == usher.Allow,
		Verdict: explain.Verdict(answer.Verdict), Reason: answer.Reason, HTTP: answer.Status(),
		RBACUnknown: w.rbacUnknown,
	}
	for _, step := range steps {
		if unusual := step.Stage == "system:masters" || step.Stage == "health paths"; unusual && step.Answer.Verdict == usher.NoOpinion {
			continue
		}
		stage := stageReport{Name: step.Stage, Asked: step.Asked, Verdict: explain.Verdict(step.Answer.Verdict), Reason: step.Answer.Reason}
		if step.Stage == denyStage || step.Stage == allowStage {
			// In one stage those that deny, in the other those that allow or abstain.
			stage.Reasons = explain.ReasonsOf(x, func(e authz.Effect) bool { return (e == authz.Deny) == (step.Stage == denyStage) })
		}
		if step.Stage == rbacStage && step.Answer.Verdict == usher.NoOpinion {
			stage.Nearly = w.RBAC.Near(r)
		}
		if step.Asked && step.Answer.Verdict != usher.NoOpinion {
			report.Stage = step.Stage
		}
		if why := w.unknown(r, step.Stage, step.Answer.Reason); step.Asked && step.Answer.Verdict == usher.NoOpinion && why != "" {
			stage.Verdict, stage.Reason = notKnown, why
		}
		report.Stages = append(report.Stages, stage)
	}
	report.Passes = explain.Passes(r, x, answer.Verdict)
	return report, nil
}

// askCluster asks the API server for its answer.
func (w *World) askCluster(ctx context.Context, r *usher.Request) (*clusterAnswer, error) {
	review := cluster.SubjectAccessReview(r)
	if w.self {
		// Everybody may ask about themselves.
		self := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: review.Spec.ResourceAttributes, NonResourceAttributes: review.Spec.NonResourceAttributes,
		}}
		answered, err := w.clients.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, self, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("ask the API server: %w", err)
		}
		return clusterAnswerOf(answered.Status), nil
	}
	answered, err := w.clients.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if of := review.Spec.ResourceAttributes; apierrors.IsForbidden(err) && of != nil && of.Namespace != "" {
		// The ClusterRole admin has the right to ask about the users of a namespace.
		local := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace}, Spec: review.Spec}
		if local, err := w.clients.Kube.AuthorizationV1().LocalSubjectAccessReviews(of.Namespace).Create(ctx, local, metav1.CreateOptions{}); err == nil {
			return clusterAnswerOf(local.Status), nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ask the API server: %w", err)
	}
	return clusterAnswerOf(answered.Status), nil
}

func clusterAnswerOf(status authorizationv1.SubjectAccessReviewStatus) *clusterAnswer {
	return &clusterAnswer{Allowed: status.Allowed, Denied: status.Denied, Reason: status.Reason}
}
