package server

import (
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/kubernetes/test/images/agnhost/crd-conversion-webhook/converter"
	"k8s.io/kubernetes/test/images/agnhost/webhook"
)

// Reference is the server of upstream's handlers. Its admission webhook is upstream's whole
// command, which listens on every address of the machine.
func Reference() *cobra.Command {
	c := &cobra.Command{Use: "reference", Short: "upstream's own handlers"}
	admission := webhook.CmdWebhook
	admission.Flags().IntP("v", "v", 0, "accepted and not used")
	c.AddCommand(admission, command("crd-conversion-webhook", func() *http.ServeMux {
		mux := http.NewServeMux()
		mux.HandleFunc("/crdconvert", converter.ServeExampleConvert)
		return mux
	}))
	return c
}
