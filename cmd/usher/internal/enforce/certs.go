package enforce

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/cabundle"
	"github.com/usher-dev/usher/internal/cert"
)

type certsFlags struct {
	dns   []string
	ips   []net.IP
	out   string
	patch []string
	days  int
}

// Certs returns usher certs.
func Certs(s cli.Streams) *cobra.Command {
	var f certsFlags
	cmd := &cobra.Command{
		Use:   "certs --out DIR [--dns NAME] [--ip ADDRESS]",
		Short: "Make a certificate for a webhook, and have API servers trust it",
		Long: `Certs makes what a webhook of your own needs: a CA, and a serving certificate that it signs.

API servers call a webhook in the cluster by the name of its Service, SERVICE.NAMESPACE.svc,
and one outside by the host in its URL. The certificate has to be for that name: give it
with --dns, or with --ip if it is an address.

A CA that is in the folder already, with its key, is used again, also one that openssl has
made. So run it again to renew the certificate: clients that trust the CA need no change, and
servers of Usher's notice the new files.

With --patch it puts the CA into the files that register the webhook: into clientConfig of
every webhook in ValidatingWebhookConfigurations, MutatingWebhookConfigurations and the
CustomResourceDefinitions with a conversion webhook. Nothing else in them changes, and
comments stay.`,
		Example: `  # for a Service
  usher certs --dns annotate.default.svc --out certs --patch webhook.yaml

  # for an address
  usher certs --ip 192.0.2.7 --dns hooks.example.com --out certs --days 90`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
			}
			return f.run(s.Out)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.dns, "dns", nil, "DNS name of the certificate, by which the webhook is called, such as SERVICE.NAMESPACE.svc (repeatable)")
	flags.IPSliceVar(&f.ips, "ip", nil, "IP address of the certificate, by which the webhook is called (repeatable)")
	flags.StringVar(&f.out, "out", "", "folder to write the files to: ca.crt, ca.key, tls.crt and tls.key (required)")
	flags.StringArrayVar(&f.patch, "patch", nil, "YAML file that registers the webhook; the CA is written into it (repeatable)")
	flags.IntVar(&f.days, "days", 365, "number of days for which the certificate is valid; the CA is valid for ten years")
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagFilename("patch", "yaml", "yml", "json")
	return cmd
}

func (f *certsFlags) check() error {
	if f.out == "" {
		return errors.New("no folder given: name one with --out")
	}
	if len(f.dns)+len(f.ips) == 0 {
		return errors.New("nothing to make a certificate for: give the name by which the webhook is called with --dns, or its address with --ip")
	}
	for _, name := range f.dns {
		if net.ParseIP(name) != nil {
			return fmt.Errorf("--dns %s: that is an address, use --ip", name)
		}
		if len(validation.IsDNS1123Subdomain(name))*len(validation.IsWildcardDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("--dns %s: not a DNS name; it is what a URL has between https:// and the port", name)
		}
	}
	if f.days < 1 || f.days > 3650 {
		return fmt.Errorf("--days %d: not between 1 and 3650", f.days)
	}
	return nil
}

func (f *certsFlags) run(out io.Writer) error {
	// A file that cannot be patched is reported before anything is created.
	for _, file := range f.patch {
		if _, _, err := patched(file, []byte("a CA")); err != nil {
			return err
		}
	}
	hosts := f.dns
	for _, ip := range f.ips {
		hosts = append(hosts, ip.String())
	}
	issued, err := cert.Issue(f.out, hosts, time.Duration(f.days)*24*time.Hour)
	if err != nil {
		return err
	}
	what := "the CA that was there"
	if issued.NewCA {
		what = "a new CA"
	}
	fmt.Fprintf(out, "%s: %s, until %s\n", issued.CAFile, what, issued.CANotAfter.Format(time.DateOnly))
	fmt.Fprintf(out, "%s: a certificate for %s, until %s\n", issued.CertFile, strings.Join(hosts, ", "), issued.NotAfter.Format(time.DateOnly))
	fmt.Fprintf(out, "%s: its key\n", issued.KeyFile)
	for _, file := range f.patch {
		content, webhooks, err := patched(file, issued.CA)
		if err != nil {
			return err
		}
		if err := replace(file, content); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: the CA is in %s\n", file, cli.Count(webhooks, "webhook", "webhooks"))
	}
	f.advise(out, issued)
	return nil
}

// advise prints what to do with the created files.
func (f *certsFlags) advise(out io.Writer, issued *cert.Issued) {
	fmt.Fprintf(out, "\nNext, start the webhook with\n  --tls-cert-file %s --tls-private-key-file %s\n", issued.CertFile, issued.KeyFile)
	for _, name := range f.dns {
		if parts := strings.Split(name, "."); len(parts) == 3 && parts[2] == "svc" {
			fmt.Fprintf(out, "or give both to its pods:\n  kubectl -n %s create secret tls %s-tls --cert %s --key %s\n", parts[1], parts[0], issued.CertFile, issued.KeyFile)
		}
	}
	if len(f.patch) > 0 {
		fmt.Fprintf(out, "and then register it:\n  kubectl apply -f %s\n", strings.Join(f.patch, " -f "))
		return
	}
	fmt.Fprintf(out, "and register it with clientConfig.caBundle set to what this prints, or let --patch do that:\n  base64 < %s | tr -d '\\n'\n", issued.CAFile)
}

// patched returns a file with the CA in it, and the number of its webhooks.
func patched(file string, ca []byte) ([]byte, int, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, 0, fmt.Errorf("patch registration: %w", err)
	}
	content, webhooks, err := cabundle.Patch(content, ca)
	if err != nil {
		return nil, 0, fmt.Errorf("patch registration %s: %w", file, err)
	}
	return content, webhooks, nil
}

// replace writes a whole file. It keeps the mode of the file and links to it.
func replace(file string, content []byte) error {
	path, err := filepath.EvalSymlinks(file)
	if err != nil {
		return fmt.Errorf("patch registration: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("patch registration: %w", err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("patch registration: %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	_, err = temporary.Write(content)
	if err := errors.Join(err, temporary.Chmod(info.Mode().Perm()), temporary.Close()); err != nil {
		return fmt.Errorf("patch registration: %w", err)
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return fmt.Errorf("patch registration: %w", err)
	}
	return nil
}
