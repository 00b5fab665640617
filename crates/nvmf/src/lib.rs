//! NVMe over TCP with the Key Value command set: target and initiator.
//!
//! The crate knows the protocol and nothing of any store. Its core does no input or output: bytes go
//! in, actions come out. [`wire`] has the bytes of the specifications.
//!
//! Sources: NVM Express Base Specification 2.1, NVMe over TCP Transport Specification 1.1, NVMe Key
//! Value Command Set Specification 1.1, and the headers of the Linux kernel, SPDK and xNVMe.

#![forbid(unsafe_code)]

pub mod wire;
