//! Server reflection: a server describes its services itself. Version 1, or else the one before it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::FileDescriptorProto;
use url::Url;

use super::wire::UNIMPLEMENTED;
use crate::client::{Client, Error};

const METHODS: &[&str] = &[
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// More files than this, or more rounds of asking for them, and a server has no end.
const MOST_FILES: usize = 1000;
const MOST_ROUNDS: usize = 20;
const MOST_SERVICES: usize = 500;

#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(string, optional, tag = "3")]
    file_by_filename: Option<String>,
    #[prost(string, optional, tag = "4")]
    file_containing_symbol: Option<String>,
    #[prost(string, optional, tag = "7")]
    list_services: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Response {
    #[prost(message, optional, tag = "4")]
    files: Option<Files>,
    #[prost(message, optional, tag = "6")]
    services: Option<Services>,
    #[prost(message, optional, tag = "7")]
    error: Option<Refusal>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Files {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    service: Vec<Service>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Refusal {
    #[prost(string, tag = "2")]
    message: String,
}

impl Client {
    /// What a server says about one of its services, or about all. The caller bounds the time.
    pub(super) async fn describe(
        &self,
        base: &Url,
        service: Option<&str>,
        most: usize,
    ) -> Result<DescriptorPool, Error> {
        let mut method = METHODS[0];
        let list = Request { list_services: Some(String::new()), ..Request::default() };
        let listed = match self.reflect(base, method, std::slice::from_ref(&list), most).await {
            Err(Error::Status { status: UNIMPLEMENTED, .. }) => {
                method = METHODS[1];
                self.reflect(base, method, &[list], most).await
            }
            listed => listed,
        };
        let listed = listed.map_err(|error| match error {
            Error::Status { status: UNIMPLEMENTED, .. } => {
                Error::Odd("the server does not describe itself: it has no server reflection".into())
            }
            error => error,
        })?;
        let services = listed.into_iter().filter_map(|answer| answer.services).flat_map(|services| services.service);
        let names: BTreeSet<String> = services.map(|service| service.name).collect();
        let names: Vec<String> = names.into_iter().filter(|name| service.is_none_or(|wanted| wanted == name)).collect();
        if names.len() > MOST_SERVICES {
            return Err(Error::Odd(format!("the server has more than {MOST_SERVICES} services")));
        }
        let mut questions: Vec<Request> = names
            .into_iter()
            .map(|name| Request { file_containing_symbol: Some(name), ..Request::default() })
            .collect();
        let mut files: BTreeMap<String, FileDescriptorProto> = BTreeMap::new();
        for _ in 0..MOST_ROUNDS {
            if questions.is_empty() {
                return pool(files);
            }
            for answer in self.reflect(base, method, &questions, most).await? {
                if let Some(refusal) = answer.error {
                    return Err(Error::Odd(format!("the server does not describe everything: {}", refusal.message)));
                }
                for bytes in answer.files.into_iter().flat_map(|files| files.file) {
                    let file = FileDescriptorProto::decode(bytes)
                        .map_err(|error| Error::Odd(format!("the description cannot be read: {error}")))?;
                    files.insert(file.name().to_owned(), file);
                }
            }
            if files.len() > MOST_FILES {
                return Err(Error::Odd(format!("the description has more than {MOST_FILES} files")));
            }
            let wanted: BTreeSet<&String> = files.values().flat_map(|file| &file.dependency).collect();
            let missing = wanted.into_iter().filter(|name| !files.contains_key(*name)).cloned();
            questions = missing.map(|name| Request { file_by_filename: Some(name), ..Request::default() }).collect();
        }
        Err(Error::Odd("the description has no end".into()))
    }

    async fn reflect(
        &self,
        base: &Url,
        method: &str,
        questions: &[Request],
        most: usize,
    ) -> Result<Vec<Response>, Error> {
        let messages: Vec<Vec<u8>> = questions.iter().map(prost::Message::encode_to_vec).collect();
        let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let answers = self.exchange(base, method, &messages, most).await?;
        let read = |bytes: Bytes| {
            Response::decode(bytes).map_err(|error| Error::Odd(format!("the description cannot be read: {error}")))
        };
        answers.into_iter().map(read).collect()
    }
}

fn pool(files: BTreeMap<String, FileDescriptorProto>) -> Result<DescriptorPool, Error> {
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files.into_values())
        .map_err(|error| Error::Odd(format!("the description is not whole: {error}")))?;
    Ok(pool)
}
