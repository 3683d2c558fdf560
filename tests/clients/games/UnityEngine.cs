// Declares what the C# of docs/games.md uses of Unity, with the signatures of its reference. Nothing here does anything.

using System;
using System.Collections;

namespace UnityEngine
{
    public class YieldInstruction { }
    public class CustomYieldInstruction : IEnumerator
    {
        public object Current { get { return null; } }
        public bool MoveNext() { return false; }
        public void Reset() { }
    }
    public class AsyncOperation : YieldInstruction { }
    public class Coroutine : YieldInstruction { }
    public class WaitForSecondsRealtime : CustomYieldInstruction
    {
        public WaitForSecondsRealtime(float time) { }
    }
    public class MonoBehaviour
    {
        public Coroutine StartCoroutine(IEnumerator routine) { throw new NotImplementedException(); }
    }
    public static class Debug
    {
        public static void Log(object message) { }
        public static void LogWarning(object message) { }
    }
    public static class JsonUtility
    {
        public static string ToJson(object obj) { throw new NotImplementedException(); }
        public static T FromJson<T>(string json) { throw new NotImplementedException(); }
    }
    public static class PlayerPrefs
    {
        public static string GetString(string key, string defaultValue) { throw new NotImplementedException(); }
        public static void SetString(string key, string value) { }
    }
    public static class Random
    {
        public static float Range(float minInclusive, float maxInclusive) { throw new NotImplementedException(); }
    }
}

namespace UnityEngine.Networking
{
    public class UploadHandler : IDisposable { public void Dispose() { } }
    public sealed class UploadHandlerRaw : UploadHandler { public UploadHandlerRaw(byte[] data) { } }
    public class DownloadHandler : IDisposable
    {
        public string text { get { throw new NotImplementedException(); } }
        public void Dispose() { }
    }
    public sealed class DownloadHandlerBuffer : DownloadHandler { }
    public class UnityWebRequestAsyncOperation : AsyncOperation { }
    public class UnityWebRequest : IDisposable
    {
        public enum Result { InProgress, Success, ConnectionError, ProtocolError, DataProcessingError }
        public UnityWebRequest(string url, string method) { }
        public UploadHandler uploadHandler { get; set; }
        public DownloadHandler downloadHandler { get; set; }
        public int timeout { get; set; }
        public long responseCode { get { throw new NotImplementedException(); } }
        public Result result { get { throw new NotImplementedException(); } }
        public void SetRequestHeader(string name, string value) { }
        public UnityWebRequestAsyncOperation SendWebRequest() { throw new NotImplementedException(); }
        public void Dispose() { }
    }
}
