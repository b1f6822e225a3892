//! `ipnat.conf`.
