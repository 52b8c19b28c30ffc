package authorize

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/connect"
	webhookconfig "github.com/usher-dev/usher/internal/webhookconfig/authz"
	"github.com/usher-dev/usher/internal/webhookconfig/credential"
)

type authzConfigFlags struct {
	options webhookconfig.Options
	world   worldFlags
	legacy  bool
	match   string
	out     string
	streams cli.Streams
}

func newAuthzConfig(s cli.Streams) *cobra.Command {
	f := authzConfigFlags{streams: s}
	cmd := &cobra.Command{
		Use:   "config --server URL",
		Short: "Write what API servers need to ask Usher",
		Long: `Config writes an AuthorizationConfiguration for the flag --authorization-config of
kube-apiserver, and the kubeconfigs that it names. Usher is asked twice: before RBAC
whether it denies, and behind RBAC whether it allows. What RBAC allows goes on when Usher
does not answer, unless --deny-failure-policy is Deny.

The control plane, nodes and the service accounts of kube-system are never sent to the
first webhook. With --policies, or --kubeconfig, only what a policy may deny is sent there:
config has to be run again when the policies change, and 'usher authz lint' tells when.
--match all sends the rest, and does not depend on policies.

With --legacy it writes the kubeconfig for --authorization-webhook-config-file of API servers
without --authorization-config: one webhook for everything.

Without --out it prints the files. Paths of certificates are those on the hosts of the API
servers, relative to --dir.`,
		Example: `  usher authz config --server https://127.0.0.1:8444 --ca-file ca.crt \
    --client-cert-file client.crt --client-key-file client.key -p policies/ --out /etc/kubernetes/usher
  usher authz config --server https://127.0.0.1:8444 --ca-file ca.crt --token-file token --match all
  usher authz config --server https://127.0.0.1:8444 --ca-file ca.crt --legacy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := f.files(cmd)
			if err != nil {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
			}
			if f.out == "" {
				return connect.PrintFiles(s, files)
			}
			return connect.WriteFiles(s, f.out, files)
		},
	}
	flags, o := cmd.Flags(), &f.options
	f.world.register(flags)
	flags.StringVar(&o.Server, "server", "", "URL of the server at which API servers ask for authorization, without a path; see --authorization-address of 'usher serve' (required)")
	flags.StringVar(&o.Dir, "dir", "", connect.DirUsage)
	flags.StringVar(&o.CAFile, "ca-file", "", "PEM file with the CA certificates to trust; API servers use them to verify --server")
	flags.StringVar(&o.Client.CertFile, "client-cert-file", "", connect.CertUsage)
	flags.StringVar(&o.Client.KeyFile, "client-key-file", "", connect.KeyUsage)
	flags.StringVar(&o.Client.TokenFile, "token-file", "", connect.TokenUsage)
	flags.StringVar(&o.FailurePolicy, "deny-failure-policy", "NoOpinion", "what API servers do before RBAC if Usher does not answer: NoOpinion or Deny")
	flags.DurationVar(&o.Timeout, "timeout", time.Second, "timeout of each answer, for API servers")
	flags.DurationVar(&o.AuthorizedTTL, "authorized-ttl", webhookconfig.DefaultAuthorizedTTL,
		"how long API servers cache that a request is allowed; 0 disables caching. A policy that takes rights away takes effect after this time")
	flags.DurationVar(&o.UnauthorizedTTL, "unauthorized-ttl", webhookconfig.DefaultUnauthorizedTTL,
		"how long API servers cache that a request is not allowed, or not denied; 0 disables caching")
	flags.StringVar(&o.Self, "self", "", "user name of the server at its API server")
	flags.StringVar(&f.match, "match", "", "requests that API servers send to the webhook that denies: policies or all; policies sends those that a policy may deny (default: policies if they are given)")
	flags.BoolVar(&f.legacy, "legacy", false, "write the kubeconfig for --authorization-webhook-config-file, for API servers without --authorization-config")
	connect.RegisterOut(flags, &f.out)
	cli.Offer(cmd, "deny-failure-policy", "NoOpinion", "Deny")
	cli.Offer(cmd, "match", "policies", "all")
	return cmd
}

func (f *authzConfigFlags) files(cmd *cobra.Command) ([]credential.File, error) {
	o := &f.options
	if o.Server == "" {
		return nil, errors.New("--server: where is usher serve --authorization-address?")
	}
	if o.Dir == "" && f.out != "" {
		dir, err := filepath.Abs(f.out)
		if err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
		o.Dir = dir
	}
	if err := f.ttls(cmd); err != nil {
		return nil, err
	}
	if f.legacy {
		file, err := webhookconfig.Legacy(*o)
		return []credential.File{file}, err
	}
	given := len(f.world.policies) > 0 || f.world.kubeconfig != ""
	switch f.match {
	case "":
		o.Any = !given
	case "all":
		o.Any = true
	case "policies":
		if !given {
			return nil, errors.New("--match policies: which ones? Name them with --policies, or a cluster with --kubeconfig")
		}
	default:
		return nil, fmt.Errorf("--match %s: use policies or all", f.match)
	}
	if !o.Any {
		w, err := f.world.load(cmd, f.streams, "")
		if err != nil {
			return nil, err
		}
		o.Rules = w.rules
	}
	return webhookconfig.Generate(*o)
}

// ttls translates 0, which disables the cache, into the value that means the same in Options.
func (f *authzConfigFlags) ttls(cmd *cobra.Command) error {
	for name, ttl := range map[string]*time.Duration{"authorized-ttl": &f.options.AuthorizedTTL, "unauthorized-ttl": &f.options.UnauthorizedTTL} {
		switch {
		case *ttl < 0:
			return fmt.Errorf("--%s %s: use 0 or more", name, *ttl)
		case f.legacy && cmd.Flags().Changed(name):
			return fmt.Errorf("--%s: with --legacy, kube-apiserver has the flag --authorization-webhook-cache-%s", name, name)
		case *ttl == 0:
			*ttl = -1
		}
	}
	return nil
}

func newAuthzLint(s cli.Streams) *cobra.Command {
	var world worldFlags
	var output cli.OutputFlag
	var color cli.ColorFlag
	cmd := &cobra.Command{
		Use:   "lint FILE",
		Short: "Say what is wrong with an AuthorizationConfiguration",
		Long: `Lint looks for what stops an API server or lets it down: settings that it refuses or
crashes on, authorizers in an order that makes them useless, webhooks without TLS, answers
that are remembered for too long. Kubeconfigs that the file names are looked at if they are
on this machine.

With --policies, or --kubeconfig, it says whether the conditions that 'usher authz config'
wrote are still those of the policies. The exit status is 0 if there is no error, and 1 if
there is.`,
		Example: `  usher authz lint /etc/kubernetes/usher/authorization.yaml
  usher authz lint authorization.yaml -p policies/`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read configuration: %w", err)
			}
			lint := webhookconfig.Lint{ReadFile: os.ReadFile}
			if len(world.policies) > 0 || world.kubeconfig != "" {
				w, err := world.load(cmd, s, "")
				if err != nil {
					return err
				}
				lint.Rules = w.rules
			}
			problems := lint.Check(content)
			for i := range problems {
				problems[i].File = args[0]
			}
			return connect.PrintProblems(s, problems, &output, &color)
		},
	}
	world.register(cmd.Flags())
	output.Register(cmd, "text", "json", "yaml")
	color.Register(cmd)
	return cmd
}
