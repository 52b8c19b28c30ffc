package prove

import (
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// podSecurity collects the fields that the pod security standards are about, with good values first.
func (g *generator) podSecurity(of *syntax.PodSecurity) {
	images := []any{"x:1"}
	for _, e := range of.Exclude {
		for _, pattern := range e.Images {
			images = append(images, strings.NewReplacer("*", "x", "?", "x").Replace(pattern))
		}
	}
	containers := []string{"spec", "containers", item}
	at := func(path ...string) []string { return append(append([]string{}, containers...), path...) }
	g.add(at("image"), images...)
	g.add(at("securityContext", "allowPrivilegeEscalation"), false, true)
	g.add(at("securityContext", "capabilities", "drop"), []any{"ALL"}, []any{"NET_RAW"})
	g.add(at("securityContext", "capabilities", "add"), []any{"NET_BIND_SERVICE"}, []any{"CHOWN"}, []any{"SYS_ADMIN"})
	g.add(at("securityContext", "privileged"), false, true)
	g.add(at("securityContext", "procMount"), "Default", "Unmasked")
	g.add(at("securityContext", "windowsOptions", "hostProcess"), false, true)
	g.add(at("ports", item, "hostPort"), int64(0), int64(80))
	g.add(at("livenessProbe", "httpGet", "host"), "", "x")
	for _, base := range [][]string{{"spec"}, containers} {
		context := func(path ...string) []string {
			return append(append(append([]string{}, base...), "securityContext"), path...)
		}
		g.add(context("runAsNonRoot"), true, false)
		g.add(context("runAsUser"), int64(1), int64(0))
		g.add(context("seccompProfile", "type"), "RuntimeDefault", "Unconfined")
		g.add(context("seLinuxOptions", "type"), "container_t", "x", "")
		g.add(context("seLinuxOptions", "user"), "", "x")
		g.add(context("appArmorProfile", "type"), "RuntimeDefault", "Unconfined")
	}
	g.add([]string{"spec", "hostNetwork"}, false, true)
	g.add([]string{"spec", "os", "name"}, "linux", "windows")
	g.add([]string{"spec", "securityContext", "sysctls"}, []any{map[string]any{"name": "net.ipv4.tcp_rmem", "value": "1"}}, []any{map[string]any{"name": "x", "value": "1"}})
	g.add([]string{"spec", "volumes"}, []any{map[string]any{"name": "a", "emptyDir": map[string]any{}}}, []any{map[string]any{"name": "a", "hostPath": map[string]any{"path": "/"}}},
		[]any{map[string]any{"name": "a", "nfs": map[string]any{"path": "/", "server": "x"}}})
	g.add([]string{"metadata", "annotations", "container.apparmor.security.beta.kubernetes.io/x"}, "runtime/default", "unconfined", "localhost/x", "")
}
