package kyverno

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/expression"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// A control of the pod security standards, as Kyverno checks it at the latest version. Its expression is about POD, and about
// a container c of all CONTAINERS.
type control struct {
	name       string
	restricted bool
	expression string
}

// controls are in the order of their names there. Those of one name are two checks, of both levels.
var controls = []control{
	{"AppArmor", false, `POD.spec.?securityContext.?appArmorProfile.?type.orValue('Localhost') in ['RuntimeDefault', 'Localhost'] && CONTAINERS.all(c, c.?securityContext.?appArmorProfile.?type.orValue('Localhost') in ['RuntimeDefault', 'Localhost']) && POD.metadata.?annotations.orValue({}).all(k, v, !k.startsWith('container.apparmor.security.beta.kubernetes.io/') || v == '' || v == 'runtime/default' || v.startsWith('localhost/'))`},
	{"Capabilities", false, `CONTAINERS.all(c, c.?securityContext.?capabilities.?add.orValue([]).all(a, a in ['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'MKNOD', 'NET_BIND_SERVICE', 'SETFCAP', 'SETGID', 'SETPCAP', 'SETUID', 'SYS_CHROOT']))`},
	{"Capabilities", true, `POD.spec.?os.?name.orValue('') == 'windows' || CONTAINERS.all(c, 'ALL' in c.?securityContext.?capabilities.?drop.orValue([]) && c.?securityContext.?capabilities.?add.orValue([]).all(a, a == 'NET_BIND_SERVICE'))`},
	{"Host Namespaces", false, `!POD.spec.?hostNetwork.orValue(false) && !POD.spec.?hostPID.orValue(false) && !POD.spec.?hostIPC.orValue(false)`},
	{"Host Ports", false, `CONTAINERS.all(c, c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0))`},
	{"HostPath Volumes", false, `POD.spec.?volumes.orValue([]).all(v, !has(v.hostPath))`},
	{"HostProcess", false, `!POD.spec.?securityContext.?windowsOptions.?hostProcess.orValue(false) && CONTAINERS.all(c, !c.?securityContext.?windowsOptions.?hostProcess.orValue(false))`},
	{"Privilege Escalation", true, `POD.spec.?os.?name.orValue('') == 'windows' || CONTAINERS.all(c, !c.?securityContext.?allowPrivilegeEscalation.orValue(true))`},
	{"Privileged Containers", false, `CONTAINERS.all(c, !c.?securityContext.?privileged.orValue(false))`},
	{"Probe Hosts", false, `CONTAINERS.all(c, [c.?livenessProbe, c.?readinessProbe, c.?startupProbe, c.?lifecycle.?postStart, c.?lifecycle.?preStop].all(h, h.?httpGet.?host.orValue('') == '' && h.?tcpSocket.?host.orValue('') == ''))`},
	{"Running as Non-root", true, `POD.spec.?securityContext.?runAsNonRoot.orValue(true) && CONTAINERS.all(c, c.?securityContext.?runAsNonRoot.orValue(POD.spec.?securityContext.?runAsNonRoot.orValue(false)))`},
	{"Running as Non-root user", true, `POD.spec.?securityContext.?runAsUser.orValue(1) != 0 && CONTAINERS.all(c, c.?securityContext.?runAsUser.orValue(1) != 0)`},
	{"SELinux", false, `[POD.spec.?securityContext.?seLinuxOptions].all(o, SELINUX) && CONTAINERS.all(c, [c.?securityContext.?seLinuxOptions].all(o, SELINUX))`},
	{"Seccomp", false, `POD.spec.?securityContext.?seccompProfile.?type.orValue('Localhost') in ['RuntimeDefault', 'Localhost'] && CONTAINERS.all(c, c.?securityContext.?seccompProfile.?type.orValue('Localhost') in ['RuntimeDefault', 'Localhost'])`},
	{"Seccomp", true, `POD.spec.?os.?name.orValue('') == 'windows' || CONTAINERS.all(c, c.?securityContext.?seccompProfile.?type.orValue(POD.spec.?securityContext.?seccompProfile.?type.orValue('')) in ['RuntimeDefault', 'Localhost'])`},
	{"Sysctls", false, `POD.spec.?securityContext.?sysctls.orValue([]).all(s, s.name in ['kernel.shm_rmid_forced', 'net.ipv4.ip_local_port_range', 'net.ipv4.tcp_syncookies', 'net.ipv4.ping_group_range', 'net.ipv4.ip_unprivileged_port_start', 'net.ipv4.ip_local_reserved_ports', 'net.ipv4.tcp_keepalive_time', 'net.ipv4.tcp_fin_timeout', 'net.ipv4.tcp_keepalive_intvl', 'net.ipv4.tcp_keepalive_probes', 'net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem'])`},
	{"Volume Types", true, `POD.spec.?volumes.orValue([]).all(v, has(v.configMap) || has(v.csi) || has(v.downwardAPI) || has(v.emptyDir) || has(v.ephemeral) || has(v.image) || has(v.persistentVolumeClaim) || has(v.projected) || has(v.secret))`},
	{"/proc Mount Type", false, `CONTAINERS.all(c, c.?securityContext.?procMount.orValue('Default') == 'Default')`},
}

// seLinux is what is allowed of optional options.
const seLinux = `o.?type.orValue('') in ['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t'] && o.?user.orValue('') == '' && o.?role.orValue('') == ''`

// Controls of pods, and of containers: others are of both.
var (
	ofPods       = []string{"Host Namespaces", "HostPath Volumes", "Sysctls", "Volume Types"}
	ofContainers = []string{"Capabilities", "Privileged Containers", "Host Ports", "/proc Mount Type", "Privilege Escalation"}
)

// An exclusion is for which images a control is left out, or that it is left out.
type exclusion struct {
	images []string
	whole  bool
}

// podSecurity converts a rule for a level of the pod security standards.
func (c *conversion) podSecurity(r *syntax.Rule) (*piece, error) {
	of := r.Validate.PodSecurity
	field := r.Validate.Field + ".podSecurity"
	switch {
	case of.Level != "baseline" && of.Level != "restricted":
		return nil, refuse(field+".level", "it is no level that checks something", "correct it, or leave the rule out")
	case of.Version != "" && of.Version != "latest":
		return nil, refuse(field+".version", "it is the standard of an earlier version", "use the pack of that level: 'usher library list'")
	case r.Preconditions != nil:
		return nil, refuse(r.Preconditions.Field, "they are for a level of the pod security standards", "use the pack of that level: 'usher library list'")
	}
	excluded, err := exclusions(of.Exclude, field)
	if err != nil {
		return nil, err
	}
	p, err := c.piece(r, admissionv1.Create, admissionv1.Update)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(p.selection.rules, func(o admissionv1.NamedRuleWithOperations) bool {
		return slices.ContainsFunc(o.Resources, func(name string) bool { return name != "pods" && !strings.HasPrefix(name, "pods/") })
	}) {
		return nil, refuse(r.Match.Field, "a level of the pod security standards is for other kinds than Pod", "match pods alone: podTemplates is for workloads")
	}
	version := of.Level + ":latest"
	name := camel(r.Name)
	v := &v1alpha1.Validation{Name: label(r.Name), MessageExpression: convert.Quote("violates PodSecurity \""+version+"\": ") + " + variables." + name + "Controls.join(', ')"}
	p.variables = append(p.variables, violated(of, excluded, "object", name, ""), violated(of, excluded, "oldObject", name, "Before"))
	c.graced(r, p, v, call("variables."+name+"Controls.size() == 0"), call("variables."+name+"ControlsBefore.size() == 0"))
	if !strings.Contains(v.Expression, "Before") {
		p.variables = p.variables[:1]
	}
	p.validations = []v1alpha1.Validation{*v}
	if p.templates == v1alpha1.PodTemplatesDeny {
		c.note(field, "annotations of AppArmor count in the templates of CronJobs, too, where Kyverno reads those of the template of the Job", "")
	}
	return p, nil
}

// exclusions returns what is left out of controls, by their names.
func exclusions(list []syntax.Control, field string) (map[string]exclusion, error) {
	all := map[string]exclusion{}
	pods, containers := map[string]bool{}, map[string]bool{}
	for _, e := range list {
		name := e.ControlName
		known := slices.ContainsFunc(controls, func(c control) bool { return c.name == name && name != "Probe Hosts" })
		switch {
		case !known:
			return nil, refuse(field+".exclude", "there is no control "+name, "correct it")
		case e.RestrictedField != "" || len(e.Values) > 0:
			return nil, refuse(field+".exclude", "it leaves values of the control "+name+" out", "use the pack of that level: 'usher library list'")
		case slices.Contains(ofPods, name) != (len(e.Images) == 0) && (slices.Contains(ofPods, name) || slices.Contains(ofContainers, name)):
			return nil, refuse(field+".exclude", "the control "+name+" is left out with images if it is one of containers, and without if it is one of pods", "correct it")
		}
		of := all[name]
		of.images = append(of.images, e.Images...)
		pods[name] = pods[name] || len(e.Images) == 0
		containers[name] = containers[name] || slices.Contains(e.Images, "*")
		of.whole = slices.Contains(ofPods, name) || pods[name] && containers[name]
		all[name] = of
	}
	for name, of := range all {
		if !of.whole && !slices.Contains(ofContainers, name) {
			return nil, refuse(field+".exclude", "the control "+name+" is left out for some containers, or for the pod alone", "use the pack of that level: 'usher library list'")
		}
	}
	return all, nil
}

// violated returns a variable that is a list of the controls that a pod violates.
func violated(of *syntax.PodSecurity, excluded map[string]exclusion, object, name, suffix string) admissionv1.Variable {
	list := object + ".spec.?initContainers.orValue([]) + " + object + ".spec.containers + " + object + ".spec.?ephemeralContainers.orValue([])"
	var parts []string
	for _, c := range controls {
		out := excluded[c.name]
		if out.whole || c.restricted && of.Level == "baseline" || len(out.images) > 0 && slices.Contains(out.images, "*") {
			continue
		}
		containers := "(" + list + ")"
		if len(out.images) > 0 {
			image := expression.Named("c.?image.orValue('')", expression.Type{Kind: expression.Text})
			fits := no
			for _, pattern := range out.images {
				fits = some(fits, termOf(expression.Wildcard(image, pattern)))
			}
			containers += ".filter(c, " + not(fits).text + ")"
		}
		text := strings.NewReplacer("POD", object, "CONTAINERS", containers, "SELINUX", seLinux).Replace(c.expression)
		parts = append(parts, "("+text+" ? [] : ["+convert.Quote(c.name)+"])")
	}
	return admissionv1.Variable{Name: name + "Controls" + suffix, Expression: "(" + strings.Join(parts, " + ") + ").distinct()"}
}
