//! Network namespaces, captures, traffic and impairments: the laboratory of demo, tests and benches.
