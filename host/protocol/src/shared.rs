//! How shared text and bytes are archived: as plain strings and vectors, without tracking of
//! pointers, since no two fields of a record are meant to stay shared.

use std::sync::Arc;

use rkyv::rancor::{Fallible, Source};
use rkyv::ser::{Allocator, Writer};
use rkyv::string::{ArchivedString, StringResolver};
use rkyv::vec::{ArchivedVec, VecResolver};
use rkyv::with::{ArchiveWith, DeserializeWith, SerializeWith};
use rkyv::{Place, SerializeUnsized};

/// Archives `Arc<str>` and `Arc<[u8]>` by content: `#[rkyv(with = Plain)]`.
pub struct Plain;

impl ArchiveWith<Arc<str>> for Plain {
    type Archived = ArchivedString;
    type Resolver = StringResolver;
    fn resolve_with(field: &Arc<str>, resolver: Self::Resolver, out: Place<Self::Archived>) {
        ArchivedString::resolve_from_str(field, resolver, out);
    }
}

impl<S: Fallible + ?Sized> SerializeWith<Arc<str>, S> for Plain
where
    S::Error: Source,
    str: SerializeUnsized<S>,
{
    fn serialize_with(field: &Arc<str>, serializer: &mut S) -> Result<Self::Resolver, S::Error> {
        ArchivedString::serialize_from_str(field, serializer)
    }
}

impl<D: Fallible + ?Sized> DeserializeWith<ArchivedString, Arc<str>, D> for Plain {
    fn deserialize_with(field: &ArchivedString, _: &mut D) -> Result<Arc<str>, D::Error> {
        Ok(field.as_str().into())
    }
}

impl ArchiveWith<Arc<[u8]>> for Plain {
    type Archived = ArchivedVec<u8>;
    type Resolver = VecResolver;
    fn resolve_with(field: &Arc<[u8]>, resolver: Self::Resolver, out: Place<Self::Archived>) {
        ArchivedVec::resolve_from_slice(field, resolver, out);
    }
}

impl<S: Fallible + Writer + Allocator + ?Sized> SerializeWith<Arc<[u8]>, S> for Plain {
    fn serialize_with(field: &Arc<[u8]>, serializer: &mut S) -> Result<Self::Resolver, S::Error> {
        ArchivedVec::serialize_from_slice(field, serializer)
    }
}

impl<D: Fallible + ?Sized> DeserializeWith<ArchivedVec<u8>, Arc<[u8]>, D> for Plain {
    fn deserialize_with(field: &ArchivedVec<u8>, _: &mut D) -> Result<Arc<[u8]>, D::Error> {
        Ok(field.as_slice().into())
    }
}
