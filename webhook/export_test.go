package webhook

import "crypto/tls"

// CertificateOf returns the certificate that a server has made.
func CertificateOf(s *Server) (*tls.Certificate, error) { return s.certificate.GetCertificate(nil) }
