package transport

import "runtime"

// setOffloads decides what the socket does in few calls, before quic-go sees it. What was asked for
// and cannot be had is a warning; the socket works without.
func (s *socket) setOffloads(cfg Config) {
	var why string
	if s.gso, why = probeGSO(s.raw); s.gso == nil {
		s.setUnavailable("gso", why)
	}
	switch {
	case !cfg.GSO.on(autoGSO):
		s.counted.unsegmented = true
		if s.gso != nil {
			s.gso = pointer(false)
		}
	case cfg.GSO == OffloadOn && (s.gso == nil || !*s.gso):
		s.warn("gso", why)
	}
	switch {
	case s.gso != nil && *s.gso && cfg.GSOMerge.on(autoGSOMerge):
		s.counted.peers.newMerger = s.counted.newMerger
	case cfg.GSOMerge == OffloadOn:
		s.warn("gso_merge", "there is no segmentation offload")
	}

	s.gro = pointer(false)
	if cfg.GRO.on(autoGRO) {
		if err := enableGRO(s.raw); err == nil {
			s.gro = pointer(true)
			s.counted.gro = newGROReader(s.counted.batch)
		} else if cfg.GRO == OffloadOn {
			s.warn("gro", err.Error())
		}
	}

	if !receiveCounted {
		why := "quic-go reads single datagrams on " + runtime.GOOS
		s.setUnavailable("reads", why)
		if cfg.RecvGateBytes > 0 {
			s.warn("recv_gate_bytes", why)
		}
		return
	}
	s.counted.gate = newGate(cfg.RecvGateBytes)
}

// warnUnmet says that nothing can be had that was asked for.
func (s *socket) warnUnmet(cfg Config, why string) {
	if cfg.GSO == OffloadOn {
		s.warn("gso", why)
	}
	if cfg.GSOMerge == OffloadOn {
		s.warn("gso_merge", why)
	}
	if cfg.GRO == OffloadOn {
		s.warn("gro", why)
	}
	if cfg.RecvGateBytes > 0 {
		s.warn("recv_gate_bytes", why)
	}
}

func (s *socket) warn(setting, why string) {
	if why == "" {
		why = "the kernel does not have it"
	}
	s.warnings = append(s.warnings, "udp socket: "+setting+" has no effect: "+why)
}
