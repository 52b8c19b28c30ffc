package enforce

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/connect"
	"github.com/usher-dev/usher/internal/webhookconfig/admission"
)

// Admission returns usher admission with its subcommands.
func Admission(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admission",
		Short: "Connect API servers for admission",
		Long: `Admission writes and checks what API servers need to prove to admission webhooks who they
are. Without it they show nothing, and 'usher serve' knows them by URL paths that nobody else
was told.`,
		Example: `  # what do API servers need to show Usher a client certificate?
  usher admission config --client-cert-file client.crt --client-key-file client.key --out /etc/kubernetes/usher

  # is something wrong with it?
  usher admission lint /etc/kubernetes/usher/admission.yaml

  # has somebody learned the URL of a webhook?
  usher admission rotate-paths`,
		Args: cli.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newAdmissionConfig(s), newAdmissionLint(s), newRotatePaths(s))
	return cmd
}

const serverUsage = "address of the webhook, as API servers reach it (repeatable): NAME.NAMESPACE.svc for a Service, a host, a URL, *.DOMAIN, or * for all webhooks; add :PORT unless it is 443"

func newAdmissionConfig(s cli.Streams) *cobra.Command {
	var o admission.Options
	var base, out string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Write what API servers need to prove who they are",
		Long: `Config writes an AdmissionConfiguration for the flag --admission-control-config-file of
kube-apiserver, and the kubeconfig that it names. With them API servers show webhooks a
client certificate or a token, which 'usher serve' asks for with --client-ca-file and
--client-names, or with --token-file.

API servers have one AdmissionConfiguration. --base names the one that they have already,
and what it says about other plugins is kept. They read it, and the kubeconfig, when they
start; a token that changes is noticed within minutes.

--server '*' shows the same to every webhook of the cluster. Anyone who runs one of them gets
the token, and can pass for the API server with it; a certificate gives nothing away.

Without --out it prints the files. Paths of certificates and tokens are those on the hosts
of the API servers, relative to --dir.`,
		Example: `  usher admission config --client-cert-file client.crt --client-key-file client.key --out /etc/kubernetes/usher
  usher admission config --server https://192.0.2.7:8443 --token-file token
  usher admission config --token-file token --base /etc/kubernetes/admission.yaml --out /etc/kubernetes/usher`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fail := func(err error) error { return &cli.UsageError{Command: cmd.CommandPath(), Err: err} }
			var err error
			if base != "" {
				if o.Base, err = os.ReadFile(base); err != nil {
					return fail(fmt.Errorf("--base: %w", err))
				}
			}
			if o.Dir == "" && out != "" {
				if o.Dir, err = filepath.Abs(out); err != nil {
					return fail(fmt.Errorf("--out: %w", err))
				}
			}
			files, err := admission.Generate(o)
			if err != nil {
				return fail(err)
			}
			if slices.Contains(o.Servers, "*") && o.Client.TokenFile != "" {
				_, _ = fmt.Fprintln(s.Err, "warning: every webhook of the cluster gets the token, and can pass for the API server with it: name the webhooks one by one, or use a certificate")
			}
			if out == "" {
				return connect.PrintFiles(s, files)
			}
			return connect.WriteFiles(s, out, files)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.Servers, "server", []string{admission.DefaultServer}, serverUsage)
	flags.StringVar(&o.Dir, "dir", "", connect.DirUsage)
	flags.StringVar(&o.Client.CertFile, "client-cert-file", "", connect.CertUsage)
	flags.StringVar(&o.Client.KeyFile, "client-key-file", "", connect.KeyUsage)
	flags.StringVar(&o.Client.TokenFile, "token-file", "", connect.TokenUsage)
	flags.StringVar(&base, "base", "", "file with the AdmissionConfiguration that the API servers have already; its other plugins are kept")
	connect.RegisterOut(flags, &out)
	return cmd
}

func newAdmissionLint(s cli.Streams) *cobra.Command {
	var servers []string
	var output cli.OutputFlag
	var color cli.ColorFlag
	cmd := &cobra.Command{
		Use:   "lint FILE",
		Short: "Say what is wrong with an AdmissionConfiguration",
		Long: `Lint looks for what stops an API server, and for what makes it show nothing to a webhook: a
plugin that is left out, a kubeconfig without a user for the webhook, files that are not
there. Kubeconfigs that the file names are looked at if they are on this machine, and read
with the code of API servers.

The exit status is 0 if there is no error, and 1 if there is.`,
		Example: `  usher admission lint /etc/kubernetes/usher/admission.yaml
  usher admission lint admission.yaml --server https://192.0.2.7:8443`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			problems, err := admission.Lint(args[0], servers)
			if err != nil {
				return err
			}
			for i := range problems {
				problems[i].File = args[0]
			}
			return connect.PrintProblems(s, problems, &output, &color)
		},
	}
	cmd.Flags().StringArrayVar(&servers, "server", []string{admission.DefaultServer}, serverUsage)
	output.Register(cmd, "text", "json", "yaml")
	color.Register(cmd)
	return cmd
}
