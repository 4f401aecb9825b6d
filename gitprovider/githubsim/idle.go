package githubsim

// Delivered reports whether every webhook of what has happened so far was
// sent and answered, for tests that wait until nothing is left to do.
func (s *Server) Delivered() bool { return s.hooks.idle() }
